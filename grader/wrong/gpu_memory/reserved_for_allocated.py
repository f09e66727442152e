"""What the allocator has reserved is taken for what tensors take.

hint: memory_allocated counts tensors, memory_reserved the allocator's cache
price: every number is another quantity
"""


def peak_memory(fn, device="cuda"):
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_reserved(device)
    result = fn()
    peak, after = torch.cuda.max_memory_reserved(device), torch.cuda.memory_reserved(device)
    del result
    return PeakMemory(before, peak - before, after - before)
