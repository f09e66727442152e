"""A reserve of more than everything leaves less than nothing.

hint: a reserve outside [0, 1) is a ValueError that names it
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    _require_positive(memory_bytes=memory_bytes)
    return math.floor(memory_bytes * (1 - Fraction(reserve)) / bytes_per_parameter(recipe))
