"""A warm-up call of its own at the end is not waited for: fn is called as often as asked, the GPU still busy.

hint: wait when all is asked for
"""


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup must be at least 0 and repeats at least 1, got {warmup} and {repeats}")
    for _ in range(warmup):
        fn()
    times = []
    for last in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        fn()
        end.record()
        if last < repeats - 1 or repeats == 1:
            end.synchronize()
            times.append(start.elapsed_time(end))
    return statistics.median(times) / 1000
