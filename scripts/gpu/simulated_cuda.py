"""Make kit.gpu_stand_in the CUDA device of this process. Only the simulated machine uses this file.

There it is one of the probes in the box. So the zygote imports it, and each child of a zygote that
has a GPU gets the device.
"""

import os
import time
from typing import Any

CYCLES_PER_SECOND = 1.5e9
LONGEST = 100.0  # a kernel that takes more seconds than this hangs
_really_sleep = time.sleep
_entered: list[Any] = []


def begin() -> None:
    """Give this process the device, for as long as it lives."""
    if _entered:
        return
    import torch

    from kit import gpu_stand_in

    context = gpu_stand_in.gpu()
    device = context.__enter__()
    _entered.append(context)
    cuda: Any = torch.cuda
    cuda.get_device_capability = lambda device=None: (9, 0)
    cuda.set_per_process_memory_fraction = lambda fraction, device=None: None
    cuda._sleep = lambda cycles: _sleep(device, cycles / CYCLES_PER_SECOND)


def _sleep(device: Any, seconds: float) -> None:
    """torch.cuda._sleep: a kernel that spins."""
    if seconds > LONGEST:
        _really_sleep(1e6)
    device.kernel(seconds=seconds)


if os.environ.get("CUDA_VISIBLE_DEVICES") == "0" and "TMPDIR" in os.environ:  # in a box
    os.register_at_fork(after_in_child=begin)
