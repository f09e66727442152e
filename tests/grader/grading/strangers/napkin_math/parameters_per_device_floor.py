"""The parameters are divided by those that fit on a device with nothing reserved."""


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if reserve < 0 or reserve >= 1:
        raise ValueError(reserve)
    need = bytes_per_parameter(recipe) * num_parameters
    return -(-need // memory_bytes)
