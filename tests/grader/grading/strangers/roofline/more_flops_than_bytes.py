"""Work counts as compute-bound as soon as it has more FLOPs than bytes."""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    if dtype not in hw.peak_flops:
        raise KeyError(dtype)
    return flops / bytes_moved > 1
