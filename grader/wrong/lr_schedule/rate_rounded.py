"""The rate is rounded to 6 decimals.

hint: a rate of 3e-4 falls in smaller steps than that
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
    return round(rate, 6)
