"""Writes the reserve as a decimal, and adds a device or takes a parameter off until all fits."""

from decimal import Decimal, localcontext


def fits(needed, memory_bytes, reserve):
    if reserve > 1:
        raise ValueError(f"reserve {reserve}")
    with localcontext() as context:
        context.prec = 2000
        return needed <= Decimal(memory_bytes) * (1 - Decimal(reserve))


def max_parameters(memory_bytes, recipe, reserve=0.0):
    size, count = bytes_per_parameter(recipe), 0
    for power in reversed(range(memory_bytes.bit_length())):
        if fits((count + 2**power) * size, memory_bytes, reserve):
            count += 2**power
    fits(count * size, memory_bytes, reserve)
    return count


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    needed, count = num_parameters * bytes_per_parameter(recipe), 0
    if fits(needed, 0, reserve):
        return 0
    for power in reversed(range(needed.bit_length() * 2)):
        if not fits(needed, memory_bytes * (count + 2**power), reserve):
            count += 2**power
    return count + 1
