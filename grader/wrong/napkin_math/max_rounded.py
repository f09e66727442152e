"""The number of parameters that fit is rounded to the nearest.

hint: a parameter that fits by half does not fit
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    return round(_usable(memory_bytes, reserve) / bytes_per_parameter(recipe))
