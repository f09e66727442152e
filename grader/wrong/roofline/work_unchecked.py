"""Negative FLOPs and bytes take a time.

hint: a negative amount is a ValueError that names the argument
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return max(flops / _peak(hw, dtype), bytes_moved / hw.memory_bandwidth)
