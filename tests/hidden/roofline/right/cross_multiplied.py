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


def min_rows(k, n, hw, dtype):
    def enough(m):
        return is_compute_bound(2 * m * k * n, dtype.itemsize * (m * (k + n) + k * n), hw, dtype)

    if not enough(2**60):
        return None
    low, high = 0, 2**60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
