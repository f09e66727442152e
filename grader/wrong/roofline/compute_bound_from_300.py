"""Work is compute-bound from 300 FLOPs per byte, on any device.

hint: compare with the device's own intensity in this dtype
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    _peak(hw, dtype)
    return flops >= 300 * bytes_moved
