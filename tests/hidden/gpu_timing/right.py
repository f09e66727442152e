# Right solutions of gpu_timing in other styles; see grader/solutions/fragments.py.

# [numpy_quantile] Collects pairs of events, synchronizes before and after, and uses numpy's median.
def time_kernel(fn, *, warmup=3, repeats=10):
    import numpy as np

    if warmup < 0 or repeats < 1:
        raise ValueError(f"need warmup >= 0 and repeats >= 1, got {warmup} and {repeats}")
    [fn() for _ in range(warmup)]
    torch.cuda.synchronize()
    pairs = []
    for _ in range(repeats):
        pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        pair[0].record()
        fn()
        pair[1].record()
        pairs.append(pair)
    torch.cuda.current_stream().synchronize()
    return float(np.median([a.elapsed_time(b) for a, b in pairs])) / 1000.0


# [polls_the_last_event] Polls the last event, and multiplies in inference mode.
def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup {warmup} or repeats {repeats} is out of range")
    for _ in range(warmup):
        fn()
    marks = []
    for _ in range(repeats):
        marks.append([torch.Event("cuda", enable_timing=True) for _ in range(2)])
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


# [waits_each_time] Creates new events and waits in each call; sorts for the median, the lower one
# of two.
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
