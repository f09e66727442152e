"""Work with more FLOPs per byte than the device wants counts as memory-bound.

hint: which of the two times is longer?
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return flops / _peak(hw, dtype) <= bytes_moved / hw.memory_bandwidth
