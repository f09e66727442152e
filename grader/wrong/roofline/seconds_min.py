"""The time is the shorter of computing and moving.

hint: both have to be done before the device is done
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return min(flops / hw.peak_flops[dtype], bytes_moved / hw.memory_bandwidth)
