"""The peak is the larger of before and after: what was alive in between is missed.

hint: max_memory_allocated remembers what was alive in between
price: what is alive in between is what a peak means
"""


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    peak, after = max(before, torch.cuda.memory_allocated(device)), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak - before, after - before)
