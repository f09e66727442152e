"""Returns every rate as np.float64, which is a subclass of float."""

import numpy as np


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return np.float64(max_learning_rate) * it / warmup_iters
    if it >= cosine_cycle_iters:
        return np.float64(min_learning_rate)
    progress = np.float64(it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    return (
        min_learning_rate
        + (max_learning_rate - min_learning_rate) * (1 + np.cos(np.pi * progress)) / 2
    )
