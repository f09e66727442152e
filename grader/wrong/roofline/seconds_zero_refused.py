"""A copy, which computes nothing, is refused.

hint: 0 FLOPs or 0 bytes are an amount like any other
"""


def roofline_seconds(flops, bytes_moved, hw, dtype):
    _require_positive(flops=flops, bytes_moved=bytes_moved)
    return max(flops / _peak(hw, dtype), bytes_moved / hw.memory_bandwidth)
