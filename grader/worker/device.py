"""The GPU, in a test's process: the limit that torch itself keeps, and a look that says whether it works."""

from typing import Any

import torch

SIDE = 64
MAX_TEXT = 2000


def limit_memory(limit_bytes: int) -> None:
    """Have torch say itself that a test asks for too much: set when CUDA starts, because setting it would start CUDA."""

    def when_cuda_starts() -> None:
        _, whole = torch.cuda.mem_get_info(0)
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / whole), 0)

    torch.cuda._lazy_call(when_cuda_starts)  # type: ignore[no-untyped-call]


def look() -> dict[str, Any] | str:
    """Use the GPU once, as a test would, and say what it is; or, where that fails, torch's words.

    Runs in a child that has imported nothing of a student's.
    """
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        ones = torch.ones(SIDE, SIDE, device="cuda")
        product_sum = float((ones @ ones).sum())
        torch.cuda.synchronize()
        free, whole = torch.cuda.mem_get_info()
        return {
            "name": torch.cuda.get_device_name(),
            "capability": "{}.{}".format(*torch.cuda.get_device_capability()),
            "cuda": str(torch.version.cuda),
            "total_bytes": whole,
            "free_bytes": free,
            "computes": product_sum == SIDE**3,
        }
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:MAX_TEXT]
