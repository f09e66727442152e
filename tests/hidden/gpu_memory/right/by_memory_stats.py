"""Reads torch.cuda.memory_stats after emptying the cache, and synchronizes twice."""


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
