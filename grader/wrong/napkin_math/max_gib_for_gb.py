"""Memory is converted from GB to GiB, although it is given in bytes.

hint: memory_bytes are bytes already
"""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    return math.floor(_usable(memory_bytes, reserve) * 2**30 / 10**9 / bytes_per_parameter(recipe))
