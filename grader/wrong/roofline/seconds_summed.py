"""The time is the sum of computing and moving.

hint: while memory delivers the next tile the device computes on the last one
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return flops / hw.peak_flops[dtype] + bytes_moved / hw.memory_bandwidth
