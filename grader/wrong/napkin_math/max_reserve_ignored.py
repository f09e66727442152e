"""Nothing is kept free.

hint: usable = memory_bytes · (1 - reserve)
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    _usable(memory_bytes, reserve)
    return memory_bytes // bytes_per_parameter(recipe)
