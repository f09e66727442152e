"""Negative numbers of calls are taken.

hint: warmup is at least 0, repeats at least 1
"""


def time_kernel(fn, *, warmup=3, repeats=10):
    repeats = max(1, repeats)
    for _ in range(warmup):
        fn()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start, end in events:
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events) / 1000
