"""A device is added even where the others hold everything.

hint: n // d + 1 is not ⌈n / d⌉ where d divides n
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    return int(num_parameters * bytes_per_parameter(recipe) // _usable(memory_bytes, reserve)) + 1
