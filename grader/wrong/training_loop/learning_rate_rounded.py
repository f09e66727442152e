"""The learning rate is rounded to six decimals.

hint: learning rates of 1e-7 are in use
"""


def _learning_rate(step, config):
    low, high = config.min_learning_rate, config.max_learning_rate
    if step < config.warmup_steps:
        return round(high * step / config.warmup_steps, 6)
    done = (step - config.warmup_steps) / (config.steps - config.warmup_steps)
    return round(low + (high - low) * (1 + math.cos(math.pi * done)) / 2, 6)
