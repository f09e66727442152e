"""The time is the sum of computing and moving.

hint: while memory delivers the next tile the device computes on the last one
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return flops / _peak(hw, dtype) + bytes_moved / hw.memory_bandwidth
