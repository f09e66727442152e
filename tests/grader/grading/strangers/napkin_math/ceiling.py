"""The quotient is rounded up.

is: max_rounded_up
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if reserve < 0 or reserve >= 1:
        raise ValueError(reserve)
    usable = memory_bytes * (1 - Fraction(reserve))
    return -int(-usable // bytes_per_parameter(recipe))
