"""The cosine starts at iteration 0, and there is no warm-up.

hint: first a straight line up to max
price: no rate up to the end of the cosine is right
"""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = it / cosine_cycle_iters
    return min_learning_rate + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
