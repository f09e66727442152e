"""What a test runs on, in its process: the limit that torch keeps of a GPU, and a look that says whether it works."""

import os
import threading
from typing import Any

import torch

SIDE = 64
FILE_BYTES = 2**20
MAX_TEXT = 2000


def limit_memory(limit_bytes: int) -> None:
    """Have torch say itself that a test asks for too much: set when CUDA starts, because setting it would start CUDA."""

    def when_cuda_starts() -> None:
        _, whole = torch.cuda.mem_get_info(0)
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / whole), 0)

    torch.cuda._lazy_call(when_cuda_starts)  # type: ignore[no-untyped-call]


def look(name: str) -> dict[str, Any] | str:
    """Use "cuda" or the "cpu" once, as a test would, and say what it is; or, where that fails, what was raised.

    Runs in a child that has imported nothing of a student's.
    """
    try:
        return _look_at_cuda() if name == "cuda" else _look_at_cpu()
    except Exception as e:
        return f"{type(e).__name__}: {e}"[:MAX_TEXT]


def _look_at_cuda() -> dict[str, Any]:
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
    """A product, a file, a thread and a process, all of which a test may use."""
    ones = torch.ones(SIDE, SIDE)
    with open(os.path.join(os.environ["TMPDIR"], "look"), "wb", buffering=0) as file:
        file.write(bytes(FILE_BYTES))
    thread = threading.Thread(target=float)
    thread.start()
    thread.join()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return {"computes": float((ones @ ones).sum()) == SIDE**3}
