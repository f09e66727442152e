"""The cosine's length is taken one shorter, so that it arrives one iteration early.

is: cosine_over_one_less
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    x = (it - warmup_iters) / max(1, cosine_cycle_iters - warmup_iters - 1)
    return (
        min_learning_rate
        + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * x)) / 2
    )
