"""Between warm-up and end the rate is interpolated in a straight line.

is: straight_down
"""

import numpy as np


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * (it / warmup_iters)
    return float(
        np.interp(it, [warmup_iters, cosine_cycle_iters], [max_learning_rate, min_learning_rate])
    )
