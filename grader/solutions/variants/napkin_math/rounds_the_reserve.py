"""Subtracts the reserve as whole bytes, rounded up, and adds a device for a remainder."""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if not 0.0 <= reserve < 1.0:
        raise ValueError("reserve must be in [0, 1)")
    kept_free = math.ceil(memory_bytes * reserve)
    return (memory_bytes - kept_free) // bytes_per_parameter(recipe)


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if not 0.0 <= reserve < 1.0:
        raise ValueError("reserve must be in [0, 1)")
    per_device = memory_bytes - math.ceil(memory_bytes * reserve)
    devices, rest = divmod(num_parameters * bytes_per_parameter(recipe), per_device)
    return devices + (rest > 0)
