"""The matrices are made anew in each call that is measured.

hint: make them before
device: cpu
"""


def measured_mfu(m, k, n, dtype, hw):
    if min(m, k, n) < 1:
        raise ValueError(f"m, k and n must be at least 1, got {m}, {k} and {n}")
    if dtype not in hw.peak_flops:
        raise ValueError(f"hw {hw.name} has no peak for dtype {dtype}")
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(k, n, device="cuda", dtype=dtype)
    return (
        2
        * m
        * k
        * n
        / (
            time_kernel(lambda: torch.randn(m, k, device="cuda").to(dtype) @ torch.randn(k, n, device="cuda").to(dtype))
            * hw.peak_flops[dtype]
        )
    )
