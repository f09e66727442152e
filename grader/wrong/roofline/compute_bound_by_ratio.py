"""FLOPs are divided by bytes, also where no byte is moved.

hint: compare times, or ask first whether a byte is moved
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return flops / bytes_moved >= _peak(hw, dtype) / hw.memory_bandwidth
