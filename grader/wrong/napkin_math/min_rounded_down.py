"""The number of devices is rounded down.

hint: what the last full device does not hold takes one more
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    return max(1, math.floor(num_parameters * bytes_per_parameter(recipe) / _usable(memory_bytes, reserve)))
