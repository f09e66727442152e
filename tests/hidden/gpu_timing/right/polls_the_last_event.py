"""Polls the last event, and multiplies in inference mode."""


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup {warmup} or repeats {repeats} is out of range")
    for _ in range(warmup):
        fn()
    marks = []
    for _ in range(repeats):
        marks.append(
            (torch.Event("cuda", enable_timing=True), torch.Event("cuda", enable_timing=True))
        )
        marks[-1][0].record()
        fn()
        marks[-1][1].record()
    while not marks[-1][1].query():
        pass
    return statistics.median(a.elapsed_time(b) for a, b in marks) / 1000


def measured_mfu(m, k, n, dtype, hw):
    if m < 1 or k < 1 or n < 1:
        raise ValueError("m, k and n have to be positive")
    if dtype not in hw.peak_flops:
        raise ValueError(f"hw: no peak for {dtype}")
    with torch.inference_mode(mode=True):
        a = torch.randn(m, k, device="cuda:0").to(dtype)
        b = torch.randn(k, n, device="cuda:0").to(dtype)
        return 2 * m * k * n / (time_kernel(lambda: a @ b) * hw.peak_flops[dtype])
