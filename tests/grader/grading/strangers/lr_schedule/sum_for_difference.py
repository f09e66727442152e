"""The cosine's height is max + min."""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    x = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    return (
        min_learning_rate
        + (max_learning_rate + min_learning_rate) * (1 + math.cos(math.pi * x)) / 2
    )
