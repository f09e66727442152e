"""A warmup_iters of 0 is taken for 1, so that the first rate is 0.

hint: without a warm-up iteration 0 has the rate max
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    warmup_iters = max(warmup_iters, 1)
    if it < warmup_iters:
        rate = max_learning_rate * it / warmup_iters
    elif it < cosine_cycle_iters:
        progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
        rate = min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
    else:
        rate = min_learning_rate
    return rate
