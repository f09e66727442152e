"""The reserve is added to the model, not taken from the memory.

hint: 1 + reserve is not 1 / (1 - reserve)
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    _usable(memory_bytes, reserve)
    return math.ceil(num_parameters * bytes_per_parameter(recipe) * (1 + Fraction(reserve)) / memory_bytes)
