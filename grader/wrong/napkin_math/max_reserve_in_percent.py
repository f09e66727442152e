"""The reserve is taken for a percentage.

hint: reserve is a fraction: 0.25 is a quarter
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    _usable(memory_bytes, reserve)
    usable = memory_bytes * (1 - Fraction(reserve) / 100)
    return math.floor(usable / bytes_per_parameter(recipe))
