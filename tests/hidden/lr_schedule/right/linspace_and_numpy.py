"""Uses numpy's cosine in a separate function."""

import numpy as np


def falling(x):
    return float(0.5 + 0.5 * np.cos(np.pi * x))


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    for name, value in [("it", it), ("warmup_iters", warmup_iters)]:
        if value < 0:
            raise ValueError(f"{name} is {value}")
    if warmup_iters > cosine_cycle_iters:
        raise ValueError(
            f"cosine_cycle_iters ({cosine_cycle_iters}) < warmup_iters ({warmup_iters})"
        )
    if it < warmup_iters:
        return float(max_learning_rate * (it / warmup_iters))
    left = (
        falling((it - warmup_iters) / (cosine_cycle_iters - warmup_iters))
        if it < cosine_cycle_iters
        else 0.0
    )
    return min_learning_rate + left * (max_learning_rate - min_learning_rate)
