# Right solutions of gpu_memory in other styles; see grader/solutions/fragments.py.

# [by_memory_stats] Reads torch.cuda.memory_stats after emptying the cache, and synchronizes twice.
def peak_memory(fn, device="cuda"):
    device = torch.device(device)
    if device.type != "cuda":
        raise ValueError(f"device {device} is not a GPU")
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    start = torch.cuda.memory_stats(device)["allocated_bytes.all.current"]
    kept = [fn()]
    torch.cuda.synchronize(device)
    stats = torch.cuda.memory_stats(device)
    kept.clear()
    return PeakMemory(
        allocated_before=start,
        peak_above_before=stats["allocated_bytes.all.peak"] - start,
        retained=stats["allocated_bytes.all.current"] - start,
    )


# [in_the_device_block] Runs inside torch.cuda.device, and uses the functions of torch.cuda.memory.
def peak_memory(fn, device="cuda"):
    where = torch.device(device)
    if where.type != "cuda":
        raise ValueError(f"device: expected a GPU, got {where}")
    memory = torch.cuda.memory
    with torch.cuda.device(where):
        while gc.collect():
            pass
        memory.reset_peak_memory_stats()
        before = memory.memory_allocated()
        result = fn()
        highest, after = memory.max_memory_allocated(), memory.memory_allocated()
        result = None
    return PeakMemory(before, peak_above_before=highest - before, retained=after - before)


# [peak_taken_before_reset] Resets the peak before and after the call.
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
