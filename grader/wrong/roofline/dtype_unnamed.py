"""The error for a dtype without a peak does not say which argument is wrong.

hint: name the argument in the sentence: dtype
"""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    _require_not_negative(flops=flops, bytes_moved=bytes_moved)
    if dtype not in hw.peak_flops:
        raise ValueError("unsupported precision")
    return flops / hw.peak_flops[dtype] >= bytes_moved / hw.memory_bandwidth
