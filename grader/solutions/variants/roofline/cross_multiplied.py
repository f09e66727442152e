"""Compares products instead of quotients, and counts the ridge as compute-bound."""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    if hw.peak_flops.get(dtype) is None:
        raise ValueError(f"{hw.name} does not compute in the dtype {dtype}")
    return flops * hw.memory_bandwidth >= bytes_moved * hw.peak_flops[dtype]


def roofline_seconds(flops, bytes_moved, hw, dtype):
    if is_compute_bound(flops, bytes_moved, hw, dtype):
        return flops / hw.peak_flops[dtype]
    return bytes_moved / hw.memory_bandwidth


def matmul_intensity(m, k, n, dtype):
    return 2 * n / ((1 + n / m + n / k) * dtype.itemsize) if m * k else 0
