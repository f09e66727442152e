"""The cosine falls to 0, and then the rate jumps up to min_learning_rate.

hint: it falls to min
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    return max_learning_rate * (1 + math.cos(math.pi * progress)) / 2
