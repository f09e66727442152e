"""A reserve of everything ends in a ZeroDivisionError.

hint: a reserve outside [0, 1) is a ValueError that names it
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    _require_positive(num_parameters=num_parameters, memory_bytes=memory_bytes)
    return math.ceil(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - Fraction(reserve))))
