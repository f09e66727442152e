"""The cosine counts its steps from 0 and not from the end of the warm-up.

hint: how far has the cosine come when the warm-up ends?
"""


def _learning_rate(step, config):
    low, high = config.min_learning_rate, config.max_learning_rate
    if step < config.warmup_steps:
        return high * step / config.warmup_steps
    done = step / config.steps
    return low + (high - low) * (1 + math.cos(math.pi * done)) / 2
