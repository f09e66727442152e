"""The cosine reaches the minimum in the last step, one step too early."""


def _learning_rate(step, config):
    top, bottom, w = config.max_learning_rate, config.min_learning_rate, config.warmup_steps
    if step < w:
        return step / w * top
    t = (step - w) / max(1, config.steps - 1 - w)
    return bottom + 0.5 * (top - bottom) * (1 + math.cos(t * math.pi))
