"""After the events are read one more call is made, which is still running at the end.

hint: the GPU is done when time_kernel returns, and fn is called warmup + repeats times
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
    seconds = statistics.median(start.elapsed_time(end) for start, end in events) / 1000
    fn()
    return seconds
