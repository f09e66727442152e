"""The time of the memory is returned also where computing takes longer."""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    compute = flops / hw.peak_flops[dtype]
    memory = bytes_moved / hw.memory_bandwidth
    if compute > memory:
        return memory
    return memory
