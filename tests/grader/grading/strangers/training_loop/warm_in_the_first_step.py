"""The warm-up gives its first step the rate of its second, and its last step the maximum."""


def _learning_rate(step, config):
    top, bottom, w = config.max_learning_rate, config.min_learning_rate, config.warmup_steps
    if step < w:
        return (step + 1) / w * top
    t = (step - w) / (config.steps - w)
    return bottom + 0.5 * (top - bottom) * (1 + math.cos(t * math.pi))
