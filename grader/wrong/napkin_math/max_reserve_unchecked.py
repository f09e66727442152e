"""A percentage is accepted as the reserve.

hint: 0.2, not 20: a reserve above 1 raises ValueError
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    return math.floor(memory_bytes * (1 - Fraction(reserve)) / bytes_per_parameter(recipe))
