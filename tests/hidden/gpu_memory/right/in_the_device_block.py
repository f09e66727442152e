"""Runs inside torch.cuda.device, and uses the functions of torch.cuda.memory."""


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
        numbers = {
            "peak_above_before": memory.max_memory_allocated() - before,
            "retained": memory.memory_allocated() - before,
        }
        result = None
    return PeakMemory(allocated_before=before, **numbers)
