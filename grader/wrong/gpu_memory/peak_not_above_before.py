"""The peak is given in all, and not above what was there before.

hint: peak_above_before is a difference
price: every peak is another quantity
"""


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak, after - before)
