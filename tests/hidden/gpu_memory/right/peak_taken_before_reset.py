"""Resets the peak before and after the call."""


def peak_memory(fn, device="cuda"):
    if not str(device).startswith("cuda"):
        raise ValueError("device has to be a CUDA device")
    gc.collect()
    gc.collect()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    output = fn()
    after = torch.cuda.memory_allocated(device)
    peak = torch.cuda.max_memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    return PeakMemory(before, peak - before, after - before)
