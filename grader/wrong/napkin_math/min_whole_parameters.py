"""Each device holds whole parameters, so bytes are lost on each of them.

hint: divide the bytes of all parameters by the bytes of a device
"""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    _require_positive(num_parameters=num_parameters)
    _usable(memory_bytes, reserve)
    return -(-num_parameters // max_parameters(memory_bytes, recipe, reserve))
