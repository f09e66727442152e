"""At the end of the warm-up the rate is min_learning_rate, because the cosine starts one later.

hint: at warmup_iters x is 0, and the rate max
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it == warmup_iters:
        return min_learning_rate
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    return min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
