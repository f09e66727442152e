"""The number of parameters that fit is not rounded.

hint: parameters are counted: an int
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    return float(_usable(memory_bytes, reserve)) / bytes_per_parameter(recipe)
