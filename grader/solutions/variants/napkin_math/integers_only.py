"""Writes the reserve as a ratio of two integers, counts with //, and divides once for days."""


def usable_ratio(memory_bytes, reserve):
    if reserve > 1:
        raise ValueError(f"reserve={reserve}")
    top, bottom = float(reserve).as_integer_ratio()
    return memory_bytes * (bottom - top), bottom


def max_parameters(memory_bytes, recipe, reserve=0.0):
    top, bottom = usable_ratio(memory_bytes, reserve)
    return top // (bottom * bytes_per_parameter(recipe))


def min_devices(num_parameters, recipe, memory_bytes, reserve=0.0):
    top, bottom = usable_ratio(memory_bytes, reserve)
    return -(-num_parameters * bytes_per_parameter(recipe) * bottom // top)


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError("mfu")
    if dtype not in hw.peak_flops:
        raise ValueError("dtype")
    return (num_parameters * num_tokens) / (14400 * num_devices * (mfu * hw.peak_flops[dtype]))
