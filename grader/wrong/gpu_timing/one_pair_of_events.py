"""One pair of events around all calls, divided by their number: a mean.

hint: a pair of events for each call
"""


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup must be at least 0 and repeats at least 1, got {warmup} and {repeats}")
    for _ in range(warmup):
        fn()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(repeats):
        fn()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1000 / repeats
