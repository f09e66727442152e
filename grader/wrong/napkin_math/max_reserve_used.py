"""The reserve is what is used, and the rest is kept free.

hint: usable = memory_bytes · (1 - reserve)
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    _usable(memory_bytes, reserve)
    usable = memory_bytes * (Fraction(reserve) or 1)
    return math.floor(usable / bytes_per_parameter(recipe))
