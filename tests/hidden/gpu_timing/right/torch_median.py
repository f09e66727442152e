"""Uses torch.median, an explicit current stream for the events, and einsum for the product."""


def time_kernel(fn, *, warmup=3, repeats=10):
    if not (warmup >= 0 and repeats >= 1):
        raise ValueError(f"warmup ({warmup}) or repeats ({repeats}) is too small")
    stream = torch.cuda.current_stream()
    for i in range(warmup):
        fn()
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(repeats)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(repeats)]
    for start, end in zip(starts, ends):
        start.record(stream)
        fn()
        end.record(stream)
    ends[-1].synchronize()
    times = torch.tensor([s.elapsed_time(e) for s, e in zip(starts, ends)], dtype=torch.float64)
    return float(times.median()) / 1e3


def measured_mfu(m, k, n, dtype, hw):
    if m < 1 or k < 1 or n < 1:
        raise ValueError("m, k and n must be positive")
    if hw.peak_flops.get(dtype) is None:
        raise ValueError(f"no peak for dtype {dtype} in hw")
    x = torch.rand(m, k, device="cuda", dtype=dtype)
    w = torch.rand(n, k, device="cuda", dtype=dtype)
    seconds = time_kernel(lambda: torch.einsum("mk,nk->mn", x, w), warmup=5, repeats=9)
    return 2 * m * k * n / seconds / hw.peak_flops[dtype]
