"""Uses math.floor and math.ceil of floats, and a power instead of a root."""


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if reserve >= 1.0:
        raise ValueError("reserve must be below 1")
    return math.floor(memory_bytes * (1 - reserve) / bytes_per_parameter(recipe))


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if reserve >= 1.0:
        raise ValueError("reserve must be below 1")
    return math.ceil(num_parameters * bytes_per_parameter(recipe) / (memory_bytes * (1 - reserve)))


def compute_optimal(flops, tokens_per_parameter=20.0):
    tokens = (flops * tokens_per_parameter / 6) ** 0.5
    return tokens / tokens_per_parameter, tokens
