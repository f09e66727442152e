"""fn is called once more beforehand.

hint: fn is called once
price: every number is of the wrong run
"""


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    fn()
    result = fn()
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak - before, after - before)
