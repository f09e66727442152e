"""Chapter 13: working with a GPU, which runs asynchronously to Python.

A call that launches work on a GPU returns before that work is done. This makes a GPU fast and
measurements hard: time has to be measured with the GPU's own clock, memory has to be read from
PyTorch's allocator, and the tensors of a copy in flight must be neither read nor overwritten. The
last function is a training step in the precision that GPUs are built for.

You can write and try all of this without a GPU: the public tests run on a stand-in for a GPU,
kit/stand_in.py.
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
    """Measure how many bytes fn()'s tensors take on a GPU at the peak of the call and after it.

    Count the memory that tensors take, as torch.cuda.memory_allocated does, in blocks of 512 bytes.
    Do not count the memory that the allocator keeps reserved to create later tensors faster
    (torch.cuda.memory_reserved).

    Measure only the call itself. The peak is the peak of this call, even if more memory was in use
    at an earlier time. Collect Python's garbage (gc.collect) before you read the first number. Keep
    fn's result alive until you have read `retained`.

    Args:
        fn: A function to call once. Its exceptions propagate.
        device: A CUDA device.

    Raises:
        ValueError: `device` is not a CUDA device.

    Example:
        4 MiB are in use. fn creates tensors of 3 MiB and of 2 MiB, then drops the first and returns
        the second: 4 MiB before, a peak of 5 MiB above that, and 2 MiB retained.

    Handout §13.1 · `python -m assignment check gpu_memory`
    """
    # TODO(gpu_memory): about 9 lines.
    raise NotImplementedError("gpu_memory: see handout §13.1")


def time_kernel(fn: Callable[[], object], *, warmup: int = 3, repeats: int = 10) -> float:
    """The seconds that the GPU takes for the work of fn(): the median of `repeats` calls.

    For an even number of repeats, return any value between the two middle ones.

    Call fn `warmup` + `repeats` times. Put each of the last `repeats` calls between two events,
    torch.cuda.Event(enable_timing=True), which the GPU timestamps when it reaches them in the
    current stream. elapsed_time returns the milliseconds between two events. A CPU clock would
    measure how long it takes to launch the work, or would include time spent waiting. When
    time_kernel returns, the GPU must have finished all the work.

    Args:
        fn: A function that launches work on the current stream. Its first calls may be
            slower than others.
        warmup: Calls that are not measured, 0 or more.
        repeats: Calls that are measured, 1 or more.

    Example:
        With warmup 1 and repeats 3, four calls take 9, 2, 3 and 7 ms on the GPU: the
        result is 0.003.

    Handout §13.2 · `python -m assignment check gpu_timing`
    """
    # TODO(gpu_timing): about 9 lines.
    raise NotImplementedError("gpu_timing: see handout §13.2")


def measured_mfu(m: int, k: int, n: int, dtype: torch.dtype, hw: Hardware) -> float:
    """Measure the MFU of one product of random matrices, (m, k) and (k, n), on the GPU.

    MFU = 2mkn / (seconds of the product by time_kernel · peak FLOP/s of `hw` for `dtype`)

    Create the matrices outside the measured time. Use the peak that `hw` gives for exactly this
    dtype: do not guess another one, and do not ask the GPU for its name. Return a result above 1 as
    it is, because it shows that a time or a peak is wrong.

    Args:
        m: Rows of the first matrix, at least 1.
        k: Columns of the first matrix and rows of the second, at least 1.
        n: Columns of the second matrix, at least 1.
        dtype: The dtype of both matrices.
        hw: The kind of GPU.

    Raises:
        ValueError: `hw` has no peak for `dtype`. (A KeyError is just as good.)

    Example:
        A product of two 1000 × 1000 matrices takes 4 µs on a GPU with a peak of 1e15 FLOP/s:
        2e9 / (4e-6 · 1e15) = 0.5.

    Handout §13.2 · `python -m assignment check gpu_timing`
    """
    # TODO(gpu_timing): about 5 lines.
    raise NotImplementedError("gpu_timing: see handout §13.2")


class Prefetcher:
    """Copy the next batches to a device while the current one is in use.

    Use it as `for x, y in Prefetcher(batches, "cuda")`.

    To a CUDA device, copy each batch through its own pinned memory, with non_blocking=True, on a
    stream that is not the current one. Then the copies of the next batches overlap with the kernels
    that use the current batch, and Python waits for neither. This needs care in three places:

    - The copy of a batch that is returned may not be done yet: make the current stream wait for it
      (wait_stream or wait_event).
    - A kernel that has not run yet may still read a batch that Python has dropped. The allocator
      knows only the stream on which a tensor was created, and would reuse the tensor's memory for
      the next copy. Call record_stream to tell the allocator about the current stream.
    - `batches` may overwrite a batch's tensors, even pinned ones, as soon as the next batch is
      drawn. Pinned memory must not be overwritten while a copy from it is in flight.

    Batches keep their order, shapes and dtypes. At no time are more than `depth` batches drawn but
    not yet returned; the one that is just being returned no longer counts. With a depth of 2 or
    more, the next batch (if there is one) is drawn before the current one is returned. If `batches`
    ends or raises an exception, the batches drawn before are returned first. Copy batches to
    devices other than CUDA with .to(device, copy=True).

    Args:
        batches: Pairs of CPU tensors.
        device: The device of the returned batches.
        depth: The largest number of batches drawn but not yet returned, at least 1.

    Example:
        With depth 2 and the batches a, b, c, d: when a is returned, b has been drawn, c may have
        been drawn, and d has not.

    Handout §13.3 · `python -m assignment check gpu_prefetch`
    """

    def __init__(
        self, batches: Iterator[tuple[Tensor, Tensor]], device: torch.device | str, depth: int = 2
    ) -> None:
        # TODO(gpu_prefetch): about 6 lines.
        raise NotImplementedError("gpu_prefetch: see handout §13.3")

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return this object itself: it can be iterated over once."""
        # TODO(gpu_prefetch): about 1 line.
        raise NotImplementedError("gpu_prefetch: see handout §13.3")

    def __next__(self) -> tuple[Tensor, Tensor]:
        """Return the next batch, on the device."""
        # TODO(gpu_prefetch): about 18 lines.
        raise NotImplementedError("gpu_prefetch: see handout §13.3")


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

    1. Gradients that are in .grad before the call have no effect, as if .grad were None.
    2. model(x) runs under torch.autocast with `dtype`, for the device of x. loss_fn may run
       under it, too.
    3. The backward pass runs outside of autocast, which the caller has not enabled.
    4. If the norm of all gradients together is above `max_norm`, they are scaled down to it.
    5. The optimizer steps.

    Parameters, gradients and the optimizer's state stay in float32, because a step changes a weight
    by less than the 8 bits of a bfloat16 can represent. bfloat16 has the range of float32, so do
    not scale the loss or use a GradScaler.

    Args:
        model: A module with float32 parameters on x's device.
        optimizer: The optimizer of the model's parameters.
        loss_fn: Takes the model's output and y, and returns the mean loss, a scalar.
        x: Inputs.
        y: Targets.
        dtype: bfloat16, or float32 for a step without autocast.
        max_norm: Above 0; math.inf for no clipping.

    Raises:
        ValueError: `dtype` is any other dtype. (float16 would need one GradScaler for the whole
            training run.)

    Example:
        A weight of 1 with a gradient of 4, max_norm 0.5 and SGD with learning rate 0.001: the
        weight becomes 0.9995, which bfloat16 cannot represent.

    Handout §13.4 · `python -m assignment check gpu_mixed_precision`
    """
    # TODO(gpu_mixed_precision): about 9 lines.
    raise NotImplementedError("gpu_mixed_precision: see handout §13.4")
