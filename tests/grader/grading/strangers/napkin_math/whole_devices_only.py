"""The quotient of the devices is rounded down.

is: min_rounded_down
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if reserve < 0 or reserve >= 1:
        raise ValueError(reserve)
    need = bytes_per_parameter(recipe) * num_parameters
    return int(need // (memory_bytes * (1 - Fraction(reserve))))
