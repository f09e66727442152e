"""Products in place of quotients, one comparison for both questions, and errors raised in line."""


def is_compute_bound(flops, bytes_moved, hw, dtype):
    if flops < 0:
        raise ValueError("flops < 0")
    if bytes_moved < 0:
        raise ValueError("bytes_moved < 0")
    if hw.peak_flops.get(dtype) is None:
        raise ValueError(f"{hw.name} does not compute in the dtype {dtype}")
    return flops * hw.memory_bandwidth >= bytes_moved * hw.peak_flops[dtype]


def roofline_seconds(flops, bytes_moved, hw, dtype):
    if is_compute_bound(flops, bytes_moved, hw, dtype):
        return flops / hw.peak_flops[dtype]
    return bytes_moved / hw.memory_bandwidth


def matmul_intensity(m, k, n, dtype):
    if min(m, k, n) < 1:
        raise ValueError("m, k and n must all be positive")
    return 2 / ((1 / m + 1 / n + 1 / k) * dtype.itemsize)
