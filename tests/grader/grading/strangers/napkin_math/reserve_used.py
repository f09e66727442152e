"""What is reserved is what is filled.

is: max_reserve_used
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if reserve < 0 or reserve >= 1:
        raise ValueError(reserve)
    return math.floor(memory_bytes * Fraction(reserve) / bytes_per_parameter(recipe))
