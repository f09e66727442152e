"""The warm-up takes it + 1 for the number of the iteration.

is: warmup_one_ahead
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * ((it + 1) / warmup_iters)
    x = (
        min(1.0, (it - warmup_iters) / (cosine_cycle_iters - warmup_iters))
        if it < cosine_cycle_iters
        else 1.0
    )
    return (
        min_learning_rate
        + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * x)) / 2
    )
