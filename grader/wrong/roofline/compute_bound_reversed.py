"""Work with more FLOPs per byte than the device wants counts as memory-bound.

hint: which of the two times is longer?
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    return flops / hw.peak_flops[dtype] <= bytes_moved / hw.memory_bandwidth
