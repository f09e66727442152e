"""cosine_cycle_iters is taken for the length of the cosine, which begins after the warm-up.

is: cycle_counted_from_the_warmup
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    past = it - warmup_iters
    if past >= cosine_cycle_iters:
        return min_learning_rate
    return (
        min_learning_rate
        + (max_learning_rate - min_learning_rate)
        * (1 + math.cos(math.pi * past / cosine_cycle_iters))
        / 2
    )
