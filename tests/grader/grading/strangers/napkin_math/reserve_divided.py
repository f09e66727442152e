"""The memory is divided by 1 + reserve."""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if reserve < 0 or reserve >= 1:
        raise ValueError(reserve)
    return int(memory_bytes / (1 + Fraction(reserve))) // bytes_per_parameter(recipe)
