"""x is it / cosine_cycle_iters, whatever the warm-up was.

is: progress_from_zero
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it >= cosine_cycle_iters:
        return min_learning_rate
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    weight = math.cos(math.pi / 2 * it / cosine_cycle_iters) ** 2
    return weight * max_learning_rate + (1 - weight) * min_learning_rate
