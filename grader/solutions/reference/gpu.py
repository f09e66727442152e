"""Chapter 13: working with a GPU, which runs asynchronously to Python.

A call that launches work on a GPU returns before that work is done. This makes a GPU fast and
measurements hard: time has to be measured with the GPU's own clock, memory has to be read from
PyTorch's allocator, and the tensors of a copy in flight must be neither read nor overwritten. The
last function is a training step in the precision that GPUs are built for.

You can write and try all of this without a GPU: the public tests run on a stand-in for a GPU,
kit/gpu_stand_in.py.
"""

from __future__ import annotations

import collections
import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:  # only the annotations need this import
    from assignment.resource_accounting import Hardware


def wait_for(device: torch.device | str) -> None:
    """Wait until a device has finished all its work: a solved example for this module.

    A GPU works through its streams while Python continues. A CPU has finished its work when
    the call returns.

    Args:
        device: Any device.

    Example:
        A clock around `a @ b` on a GPU shows a few microseconds, the time to launch the product. A
        clock around `a @ b; wait_for("cuda")` shows how long the product took.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class PeakMemory:
    """Bytes of tensors on a GPU before, during and after a call.

    Args:
        allocated_before: Bytes of the tensors that were alive before the call.
        peak_above_before: The largest number of bytes alive at any moment of the call, minus
            `allocated_before`.
        retained: Bytes alive after the call, including its result, minus `allocated_before`. This
            is negative if the call freed more bytes than it left behind.
    """

    allocated_before: int
    peak_above_before: int
    retained: int


def peak_memory(fn: Callable[[], object], device: torch.device | str = "cuda") -> PeakMemory:
    """Measure how many bytes fn()'s tensors take on a GPU, at the peak of the call and after it.

    Count what torch.cuda.memory_allocated counts. Call gc.collect first. The peak is that of this
    call, even if more memory was in use earlier. Keep fn's result until you have read `retained`.

    Args:
        fn: Called once; its exceptions propagate.
        device: A CUDA device.

    Raises:
        ValueError: `device` is not a CUDA device.

    Example:
        4 MiB are in use; fn creates 3 and 2 MiB and returns the latter: 4 MiB before, a peak of
        5 MiB above that, 2 MiB retained.

    Handout §13.1 · `python -m assignment check gpu_memory`
    """
    # BEGIN SOLUTION(gpu_memory)
    if torch.device(device).type != "cuda":
        raise ValueError(f"device must be a CUDA device, got {device}")
    gc.collect()
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    result = fn()
    peak, after = torch.cuda.max_memory_allocated(device), torch.cuda.memory_allocated(device)
    del result
    return PeakMemory(before, peak - before, after - before)
    # END SOLUTION


def time_kernel(fn: Callable[[], object], *, warmup: int = 3, repeats: int = 10) -> float:
    """The seconds that the GPU takes for the work of fn(): the median of `repeats` calls.

    Call fn `warmup` times, then `repeats` times, each between two events,
    torch.cuda.Event(enable_timing=True). Their elapsed_time is in milliseconds. Wait until the GPU
    has finished. Of an even number, either middle time will do.

    Args:
        fn: Launches work on the current stream.
        warmup, repeats: Numbers of calls; warmup may be 0.

    Example:
        With warmup 1 and repeats 3, four calls take 9, 2, 3 and 7 ms: 0.003.

    Handout §13.2 · `python -m assignment check gpu_timing`
    """
    # BEGIN SOLUTION(gpu_timing)
    for _ in range(warmup):
        fn()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start, end in events:
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events) / 1000
    # END SOLUTION


def measured_mfu(m: int, k: int, n: int, dtype: torch.dtype, hw: Hardware) -> float:
    """Measure the MFU of one product of random matrices, (m, k) and (k, n), on the GPU.

    MFU = 2mkn / (seconds of the product by time_kernel · peak FLOP/s of `hw` for `dtype`)

    Create the matrices before you measure. Do not clamp the result.

    Args:
        m, k, n, dtype: Sizes and dtype of the matrices.
        hw: The kind of GPU.

    Raises:
        KeyError or ValueError: `hw` has no peak for `dtype`.

    Example:
        Two 1000 × 1000 matrices take 4 µs; the peak is 1e15 FLOP/s: 2e9 / (4e-6 · 1e15) = 0.5.

    Handout §13.2
    """
    # BEGIN SOLUTION(gpu_timing)
    if dtype not in hw.peak_flops:
        raise ValueError(f"hw {hw.name} has no peak for dtype {dtype}")
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    b = torch.randn(k, n, device="cuda", dtype=dtype)
    return 2 * m * k * n / (time_kernel(lambda: a @ b) * hw.peak_flops[dtype])
    # END SOLUTION


# BEGIN SOLUTION(gpu_prefetch)
def _sent(batch, device, stream):
    """A batch on the device, and the event that marks its arrival (None: no need to wait)."""
    if stream is None:
        return tuple(x.to(device, copy=True) for x in batch), None
    pinned = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x) for x in batch]
    # PyTorch keeps pinned memory until the copies from it are done.
    with torch.cuda.stream(stream):
        return tuple(x.to(device, non_blocking=True) for x in pinned), stream.record_event()


# END SOLUTION


class Prefetcher:
    """Copy the next batches to a device while the current one is in use.

    Copy from pinned memory, non_blocking, on a stream of your own. Python must not wait.

    - Before a batch is returned, the current stream must wait for its copy (wait_event).
    - A kernel may read a batch that Python has dropped: call record_stream.
    - `batches` may overwrite a batch, even a pinned one, once the next is drawn: copy it.

    At most `depth` batches are drawn but not yet returned. With a depth of 2 or more, the next is
    drawn before one is returned. After an end or error of `batches`, those drawn before come first.
    To other devices, use .to(device, copy=True).

    Args:
        batches: Pairs of CPU tensors.
        device: Their destination.
        depth: Batches to draw ahead.

    Example:
        With depth 2: when batch 1 is returned, 2 has been drawn and 4 has not.

    Handout §13.3 · `python -m assignment check gpu_prefetch`
    """

    def __init__(
        self, batches: Iterator[tuple[Tensor, Tensor]], device: torch.device | str, depth: int = 2
    ) -> None:
        # BEGIN SOLUTION(gpu_prefetch)
        self._batches = iter(batches)
        self._device = torch.device(device)
        self._depth = depth
        self._stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._waiting = collections.deque()
        self._end = None  # exception that ended `batches`
        # END SOLUTION

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return itself."""
        # BEGIN SOLUTION(gpu_prefetch)
        return self
        # END SOLUTION

    def __next__(self) -> tuple[Tensor, Tensor]:
        """Return the next batch."""
        # BEGIN SOLUTION(gpu_prefetch)
        while self._end is None and len(self._waiting) < self._depth:
            try:
                batch = next(self._batches)
            except StopIteration:
                self._end = StopIteration()
            except Exception as e:
                self._end = e
            else:
                self._waiting.append(_sent(batch, self._device, self._stream))
        if not self._waiting:
            raise self._end
        batch, arrived = self._waiting.popleft()
        if arrived is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_event(arrived)
            for x in batch:
                x.record_stream(current)
        return batch
        # END SOLUTION


def autocast_train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
    *,
    dtype: torch.dtype = torch.bfloat16,
    max_norm: float = 1.0,
) -> float:
    """Take one training step in mixed precision and return the batch's loss before the step.

    1. Forget the gradients in .grad, as if they were None.
    2. Run model(x) under torch.autocast with `dtype`, for x's device.
    3. Run the backward pass outside of autocast.
    4. If the norm of all gradients together is above `max_norm`, scale them down to it.
    5. Let the optimizer step.

    Parameters, gradients and the optimizer's state stay float32. Use no GradScaler.

    Args:
        model, optimizer: With float32 parameters on x's device.
        loss_fn: The mean loss of the output and y.
        x, y: Inputs and targets.
        dtype: bfloat16, or float32 for a step without autocast.
        max_norm: The largest norm; math.inf for no clipping.

    Raises:
        ValueError: `dtype` is any other dtype.

    Example:
        max_norm 0.5, SGD at learning rate 0.001: a weight of 1 with gradient 4 becomes 0.9995.

    Handout §13.4 · `python -m assignment check gpu_mixed_precision`
    """
    # BEGIN SOLUTION(gpu_mixed_precision)
    if dtype not in (torch.bfloat16, torch.float32):
        raise ValueError(f"dtype must be bfloat16 or float32, got {dtype}")
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item()
    # END SOLUTION
