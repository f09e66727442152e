"""The number of parameters that fit is rounded up.

hint: a parameter that fits in part does not fit
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    return math.ceil(_usable(memory_bytes, reserve) / bytes_per_parameter(recipe))
