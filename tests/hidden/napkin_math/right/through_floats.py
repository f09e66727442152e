"""Subtracts the reserve as a float, makes it exact afterwards, and uses a power for the root."""

from fractions import Fraction


def max_parameters(memory_bytes, recipe, reserve=0.0):
    if reserve > 1.0:
        raise ValueError("reserve must be at most 1")
    return math.floor(memory_bytes * Fraction(1 - reserve) / bytes_per_parameter(recipe))


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    if reserve > 1.0:
        raise ValueError("reserve must be at most 1")
    needed = num_parameters * bytes_per_parameter(recipe)
    return math.ceil(needed / (memory_bytes * Fraction(1 - reserve)))


def compute_optimal(flops, tokens_per_parameter=20.0):
    tokens = (flops * tokens_per_parameter / 6) ** 0.5
    return tokens / tokens_per_parameter, tokens
