"""Any device is taken, a CPU as well.

hint: a device that is no GPU is a ValueError that names it
"""


def peak_memory(fn, device="cuda"):
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak - before, after - before)
