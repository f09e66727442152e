"""Uses if, elif and else, and applies the cosine up to and including its last iteration."""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < 0:
        raise ValueError("it < 0")
    if warmup_iters < 0:
        raise ValueError("warmup_iters < 0")
    if cosine_cycle_iters < warmup_iters:
        raise ValueError("cosine_cycle_iters < warmup_iters")
    if it < warmup_iters:
        return (it / warmup_iters) * max_learning_rate
    elif it <= cosine_cycle_iters and cosine_cycle_iters > warmup_iters:
        cos = math.cos((it - warmup_iters) / (cosine_cycle_iters - warmup_iters) * math.pi)
        return min_learning_rate + 0.5 * (1 + cos) * (max_learning_rate - min_learning_rate)
    else:
        return min_learning_rate
