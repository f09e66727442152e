"""The number of parameters that fit passes through a float.

hint: past 2**53 a float holds no odd number: stay with integers, or fractions.Fraction
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    _usable(memory_bytes, reserve)
    return int(memory_bytes * (1 - reserve) / bytes_per_parameter(recipe))
