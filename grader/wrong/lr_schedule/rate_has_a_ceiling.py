"""The rate is never above 1.

hint: max_learning_rate is whatever the caller asks for
price: it is every rate that is wrong
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        rate = max_learning_rate * it / warmup_iters
    elif it < cosine_cycle_iters:
        progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
        rate = min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
    else:
        rate = min_learning_rate
    return min(rate, 1.0)
