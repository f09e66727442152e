"""Peak and rest are exchanged.

hint: which is the most at one moment, and which what is left?
price: both numbers are wrong wherever they differ
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
    return PeakMemory(before, after - before, peak - before)
