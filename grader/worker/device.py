"""The device of a test: torch's own limit on GPU memory, and a check that the device works."""

import os
import sys
import threading
from typing import Any

SIDE = 64
FILE_BYTES = 2**20
MAX_TEXT = 2000


def limit_memory(limit_bytes: int) -> None:
    """Have torch itself refuse allocations above the limit.

    The limit is set only when CUDA starts, because setting it earlier would itself start CUDA.
    """
    import torch

    def when_cuda_starts() -> None:
        _, whole = torch.cuda.mem_get_info(0)
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / whole), 0)

    torch.cuda._lazy_call(when_cuda_starts)  # type: ignore[no-untyped-call]


def look(name: str) -> dict[str, Any] | str:
    """Use the device "cuda" or "cpu" once, as a test would.

    Return a description of the device or, if that fails, the exception as text.

    This runs in a child that has imported no student code.
    """
    try:
        return _look_at_cuda() if name == "cuda" else _look_at_cpu()
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:MAX_TEXT]


def _look_at_cuda() -> dict[str, Any]:
    import torch

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


def _look_at_cpu() -> dict[str, Any]:
    """Compute a product, write a file, start a thread and a process: a test may do all of these."""
    computes = _product_is_right() if "torch" in sys.modules else True
    with open(os.path.join(os.environ["TMPDIR"], "look"), "wb", buffering=0) as file:
        file.write(bytes(FILE_BYTES))
    thread = threading.Thread(target=float)
    thread.start()
    thread.join()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return {"computes": computes}


def _product_is_right() -> bool:
    import torch

    ones = torch.ones(SIDE, SIDE)
    return float((ones @ ones).sum()) == SIDE**3
