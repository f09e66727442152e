"""A dtype that `hw` has no peak for gets the one of another.

hint: a dtype without a peak is a ValueError
"""


def measured_mfu(m, k, n, dtype, hw):
    if min(m, k, n) < 1:
        raise ValueError(f"m, k and n must be at least 1, got {m}, {k} and {n}")
    if dtype not in hw.peak_flops:
        hw = type("Hw", (), {"peak_flops": {dtype: max(hw.peak_flops.values())}})
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(k, n, device="cuda", dtype=dtype)
    return 2 * m * k * n / (time_kernel(lambda: a @ b) * hw.peak_flops[dtype])
