"""The number of devices passes through a float.

hint: past 2**53 a float loses the last parameter: -(-a // b), or fractions.Fraction
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    _require_positive(num_parameters=num_parameters)
    _usable(memory_bytes, reserve)
    return math.ceil(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - reserve)))
