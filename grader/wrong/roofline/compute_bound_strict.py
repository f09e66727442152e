"""On the ridge, where both times are equal, work counts as memory-bound.

hint: `at least as long` is >= and not >
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    return flops / _peak(hw, dtype) > bytes_moved / hw.memory_bandwidth
