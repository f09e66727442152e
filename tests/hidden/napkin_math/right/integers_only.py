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


def cheapest_cluster(num_parameters, num_tokens, recipe, dtype, mfu, max_days, offers):
    def needed(offer):
        size = num_parameters * bytes_per_parameter(recipe)
        flops = 6 * num_parameters * num_tokens
        each = mfu * offer.hw.peak_flops[dtype] * 86_400 * max_days
        return max(-(-size // offer.hw.memory_bytes), int(-(-flops // each)))

    def nodes(offer):
        return -(-needed(offer) // offer.devices_per_node)

    able = [o for o in offers if dtype in o.hw.peak_flops and nodes(o) <= o.nodes]
    if not able:
        return None
    best = min(able, key=lambda offer: offer.dollars / offer.hw.peak_flops[dtype])
    return [best, nodes(best) * best.devices_per_node]
