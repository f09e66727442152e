"""Chapter 13: a GPU, which is still at work when Python has gone on.

A call that gives a GPU something to do returns before it is done. That is what makes a GPU fast, and what makes measuring
one hard: a clock has to be the GPU's own, memory is PyTorch's to count, and a copy that is on its way must neither be read
nor overwritten. The last function is a training step in the precision that GPUs are built for.

Without a GPU you can write all of this and try it: the public tests run on a stand-in for one, tests/probes/stand_in.py.
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

if TYPE_CHECKING:  # for the annotation alone: these problems need nothing of that module
    from assignment.resource_accounting import Hardware


def wait_for(device: torch.device | str) -> None:
    """Wait until a device has done all that it was given: a worked neighbour of what is below.

    A GPU works through its streams while Python goes on; a CPU has done its work when the call returns.

    Args:
        device: Any device.

    Example:
        The clock around `a @ b` on a GPU shows some microseconds, the time to ask for the product. Around
        `a @ b; wait_for("cuda")` it shows how long the product took.
    """
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


@dataclass(frozen=True)
class PeakMemory:
    """Bytes of tensors on a GPU before, during and after a call.

    Args:
        allocated_before: Bytes of the tensors that were alive before it.
        peak_above_before: The most bytes that were alive at one moment of the call, less `allocated_before`.
        retained: Bytes alive after it, its result among them, less `allocated_before`; negative where it freed more than it
            left.
    """

    allocated_before: int
    peak_above_before: int
    retained: int


def peak_memory(fn: Callable[[], object], device: torch.device | str = "cuda") -> PeakMemory:
    """How many bytes of tensors fn() needs on a GPU at its worst moment, and how many it leaves there.

    Counted is what tensors take, as torch.cuda.memory_allocated does, which counts in blocks of 512 bytes. What the
    allocator keeps reserved so that the next tensor is there sooner, torch.cuda.memory_reserved, is another number.

    What was before the call is not the call's: the peak is that of the call alone, however much was in use earlier, and
    garbage that Python has not collected yet (gc.collect) is gone before anything is read. fn's result is still alive when
    `retained` is read.

    Args:
        fn: Is called once. What it raises passes through.
        device: A CUDA device.

    Raises:
        ValueError: `device` is no CUDA device.

    Example:
        4 MiB are in use. fn makes tensors of 3 MiB and of 2 MiB, then drops the first and returns the second: 4 MiB before,
        a peak of 5 MiB above that, 2 MiB retained.

    Handout §13.1 · gpu_memory · `pytest -k gpu_memory`
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
    """How many seconds the GPU takes for the work that fn() gives it: the median of `repeats` calls, after some to warm up.

    fn is called warmup + repeats times. Each of the last `repeats` calls stands between two events,
    torch.cuda.Event(enable_timing=True), which the GPU stamps when it comes to them in the current stream; elapsed_time gives
    the milliseconds from one to the other. A clock of the CPU would show how long it takes to ask for the work, or the
    waiting as well. When time_kernel returns the GPU has done all of it.

    Args:
        fn: Gives the GPU work on the current stream. Its first calls may be slower than others.
        warmup: Calls that are not measured, 0 or more.
        repeats: Calls that are measured, 1 or more.

    Example:
        warmup 1 and repeats 3, and the four calls take 9, 2, 3 and 7 ms on the GPU: 0.003.

    Handout §13.2 · gpu_timing · `pytest -k gpu_timing`
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
    """The MFU of one matrix product on the GPU, measured: of random matrices (m, k) and (k, n).

    MFU = 2mkn / (seconds of the product by time_kernel · peak FLOP/s of `hw` for `dtype`)

    The matrices are made outside the time that is measured. The peak is the one that `hw` gives for that very dtype; no
    other is guessed, and the GPU is not asked for its name. A result above 1 is returned as it is, because it says that a
    time or a peak is wrong.

    Args:
        m: Rows of the first matrix, at least 1.
        k: Its columns and the second one's rows, at least 1.
        n: Columns of the second one, at least 1.
        dtype: Of both matrices.
        hw: What the GPU is.

    Raises:
        ValueError: `hw` has no peak for `dtype`. A KeyError is as good.

    Example:
        A product of 1000 × 1000 matrices takes 4 µs on a GPU with a peak of 1e15 FLOP/s: 2e9 / (4e-6 · 1e15) = 0.5.

    Handout §13.2 · gpu_timing · `pytest -k gpu_timing`
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
    """A batch on the device, and the event of its arrival there; None where nothing is to be waited for."""
    if stream is None:
        return tuple(x.to(device, copy=True) for x in batch), None
    pinned = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True).copy_(x) for x in batch]
    with torch.cuda.stream(stream):  # PyTorch keeps pinned memory until the copies from it are done
        return tuple(x.to(device, non_blocking=True) for x in pinned), stream.record_event()


# END SOLUTION


class Prefetcher:
    """Batches on a device, with the next ones on their way while one is worked on: `for x, y in Prefetcher(batches, "cuda")`.

    To a CUDA device each batch goes through pinned memory of its own, with non_blocking=True, on a stream that is not the
    current one. So the copy of the next batches runs beside the kernels that work on this one, and Python waits for neither:

    - A batch that is handed out may still be on its way: the current stream waits for it (wait_stream or wait_event).
    - A batch that is dropped may still be read by a kernel that has not run yet. The allocator knows a tensor on the stream
      where it was made alone, and would give its memory to the next copy: record_stream tells it of the current one.
    - `batches` may write a batch's tensors over as soon as it is asked for the next one, pinned ones as well. And no pinned
      memory is written over while a copy from it is under way.

    Batches come out in their order, with their shapes and dtypes. No more than `depth` of them are ever drawn and not
    handed out; with a depth of 2 or more the next one is drawn before one is handed out, where there is a next one. When
    `batches` ends, or raises an exception, the batches drawn before come first. To other devices batches are moved by .to.

    Args:
        batches: Pairs of CPU tensors.
        device: Where they are wanted.
        depth: At least 1.

    Example:
        With depth 2 and the batches a, b, c, d: when a is handed out b is drawn, and c perhaps, but not d.

    Handout §13.3 · gpu_prefetch · `pytest -k gpu_prefetch`
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
        self._end = None  # the exception that ended `batches`
        # END SOLUTION

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Itself: it can be gone through once."""
        # BEGIN SOLUTION(gpu_prefetch)
        return self
        # END SOLUTION

    def __next__(self) -> tuple[Tensor, Tensor]:
        """The next batch, on the device."""
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
    """One step of training in mixed precision; the loss of the batch before the step.

    1. Gradients from before do not count.
    2. model(x) runs under torch.autocast, in `dtype`, for the device that x is on; loss_fn may run under it, too.
    3. The backward pass runs outside of autocast.
    4. Gradients whose norm, of all of them together, is above `max_norm` are scaled down to it.
    5. The optimizer steps.

    Parameters, gradients and the optimizer's state keep their float32: a step changes a weight by less than the 8 bits of a
    bfloat16 could show. bfloat16 has the range of float32, so the loss is not scaled, and no GradScaler is used.

    Args:
        model: Its parameters are float32, on x's device.
        optimizer: Of the model's parameters.
        loss_fn: Gives the mean loss, a scalar, from the model's output and y.
        x: Inputs.
        y: Targets.
        dtype: bfloat16, or float32 for a step without autocast.
        max_norm: Above 0; math.inf for no clipping.

    Raises:
        ValueError: `dtype` is another one: float16 would need a GradScaler that lives as long as the training does.

    Example:
        A weight of 1 with a gradient of 4, max_norm 0.5 and SGD with learning rate 0.001: the weight becomes 0.9995, which
        is no bfloat16.

    Handout §13.4 · gpu_mixed_precision · `pytest -k gpu_mixed_precision`
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
