"""A clock of the CPU around each call and a wait: asking and waking up are in the time.

hint: events are stamped by the GPU
device: cpu
"""

import time


def time_kernel(fn, *, warmup=3, repeats=10):
    if warmup < 0 or repeats < 1:
        raise ValueError(f"warmup must be at least 0 and repeats at least 1, got {warmup} and {repeats}")
    for _ in range(warmup):
        fn()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        fn()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
