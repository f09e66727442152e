"""When the cosine is done the rate is 0.

is: zero_after_the_end
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    rate = 0.0
    if it < warmup_iters:
        rate = max_learning_rate * it / warmup_iters
    elif it < cosine_cycle_iters:
        angle = math.pi * (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
        rate = (
            min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(angle)) / 2
        )
    return rate
