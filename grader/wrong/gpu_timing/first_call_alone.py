"""The first of the calls that are measured stands for all of them.

hint: the median of all repeats
"""


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup must be at least 0 and repeats at least 1, got {warmup} and {repeats}")
    for _ in range(warmup):
        fn()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start, end in events:
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return events[0][0].elapsed_time(events[0][1]) / 1000
