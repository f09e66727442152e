"""Creates new events and waits in each call; sorts for the median, the lower one of two."""


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0:
        raise ValueError("warmup must not be negative")
    if repeats <= 0:
        raise ValueError("repeats must be positive")
    for _ in range(warmup):
        fn()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        fn()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return sorted(times)[(len(times) - 1) // 2]


def measured_mfu(m, k, n, dtype, hw):
    for name, size in (("m", m), ("k", k), ("n", n)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    try:
        peak = hw.peak_flops[dtype]
    except KeyError:
        raise ValueError(f"hw has no peak for {dtype}") from None
    a = torch.randn((m, k), device="cuda").to(dtype)
    b = torch.randn((k, n), device="cuda").to(dtype)
    return (2 * m * k * n / time_kernel(lambda: torch.matmul(a, b))) / peak
