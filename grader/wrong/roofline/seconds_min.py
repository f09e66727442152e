"""The time is the shorter of computing and moving.

hint: both have to be done before the device is done
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return min(flops / _peak(hw, dtype), bytes_moved / hw.memory_bandwidth)
