"""The matrices are on the CPU, so that the GPU has nothing to do between the events.

hint: device="cuda"
device: cpu
"""


def measured_mfu(m, k, n, dtype, hw):
    if min(m, k, n) < 1:
        raise ValueError(f"m, k and n must be at least 1, got {m}, {k} and {n}")
    if dtype not in hw.peak_flops:
        raise ValueError(f"hw {hw.name} has no peak for dtype {dtype}")
    a = torch.randn(m, k, dtype=dtype)
    b = torch.randn(k, n, dtype=dtype)
    return 2 * m * k * n / (time_kernel(lambda: a @ b) * hw.peak_flops[dtype])
