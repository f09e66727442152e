"""No memory, or less, holds a number of parameters.

hint: a count below 1 is a ValueError that names the argument
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if not 0 <= reserve < 1:
        raise ValueError(f"reserve is {reserve}")
    return math.floor(memory_bytes * (1 - Fraction(reserve)) / bytes_per_parameter(recipe))
