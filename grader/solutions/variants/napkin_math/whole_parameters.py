"""Each device holds whole parameters, as many as max_parameters returns."""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    return -(-num_parameters // max_parameters(memory_bytes, recipe, reserve))
