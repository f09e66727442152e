"""Clamps the progress to at most 1, and always applies the cosine, as cos²."""


def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    length = cosine_cycle_iters - warmup_iters
    if min(it, warmup_iters, length) < 0:
        raise ValueError(
            f"{it=}, {warmup_iters=}, {cosine_cycle_iters=}: negative, or in the wrong order"
        )
    if it < warmup_iters:
        return it * max_learning_rate / warmup_iters
    x = min(1.0, (it - warmup_iters) / length) if length else 1.0
    weight = math.cos(math.pi * x / 2) ** 2
    return weight * max_learning_rate + (1 - weight) * min_learning_rate
