"""Compute waits for the memory: the two times are added up.

is: seconds_summed
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    t_compute = flops / hw.peak_flops[dtype]
    t_memory = bytes_moved / hw.memory_bandwidth
    return t_compute + t_memory
