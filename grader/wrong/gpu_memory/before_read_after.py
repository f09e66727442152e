"""What was there before is read when the call is over.

hint: in which order are the three numbers read?
price: every number is the difference to a wrong moment
"""


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    result = fn()
    before = torch.cuda.memory_allocated(device)
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak - before, after - before)
