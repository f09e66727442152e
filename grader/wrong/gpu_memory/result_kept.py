"""fn's result stays alive when the call is over, in a list of the module's.

hint: what holds the result when peak_memory has returned?
"""

_results = []


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    _results.append(result)
    return PeakMemory(before, peak - before, after - before)
