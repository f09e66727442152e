"""Collects pairs of events, synchronizes before and after, and uses numpy's median."""


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
