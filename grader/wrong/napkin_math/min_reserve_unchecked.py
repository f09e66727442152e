"""A percentage is accepted as the reserve.

hint: 0.2, not 20: a reserve above 1 raises ValueError
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    return math.ceil(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - Fraction(reserve))))
