"""The cosine takes cosine_cycle_iters iterations after the warm-up.

hint: cosine_cycle_iters is the iteration at which it ends
price: the cosine and its end are both late
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= warmup_iters + cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / cosine_cycle_iters
    return min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
