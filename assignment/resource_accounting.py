"""Chapter 5: how long a computation must take on a device, and what fits: napkin mathematics for training.

A device has two speeds: how fast it computes (FLOP/s, different for each dtype) and how fast it reads and writes its memory
(bytes/s). Compute and traffic overlap, so the slower of the two decides. A few more multiplications say how many
parameters fit, how many devices and days a training run takes, and which model a budget of FLOPs should train.

Bytes are plain bytes (1 GB = 10⁹), times are seconds, a multiply and an add are two FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # for the annotation alone: this module runs without the other one
    from assignment.flop_counting import TransformerConfig


@dataclass(frozen=True)
class Hardware:
    """One device, as its vendor's data sheet describes it.

    Args:
        name: What it is called.
        peak_flops: FLOP/s by dtype, dense: without the factor of 2 that data sheets add for structured sparsity. A dtype
            that the device has no peak for is missing.
        memory_bandwidth: Bytes/s between its memory and its processors.
        memory_bytes: Bytes of its memory.
    """

    name: str
    peak_flops: Mapping[torch.dtype, float]
    memory_bandwidth: float
    memory_bytes: int


# Dense peaks of the SXM models from NVIDIA's data sheets, whose gigabytes are taken as 10⁹ bytes. float32 is without TF32, as
# torch.matmul computes it by default; float64 is on tensor cores, as torch.matmul uses them (without: 9.7e12 and 34e12).
A100_80GB = Hardware(
    name="A100 80GB SXM",
    peak_flops={
        torch.float64: 19.5e12,
        torch.float32: 19.5e12,
        torch.bfloat16: 312e12,
        torch.float16: 312e12,
    },
    memory_bandwidth=2.039e12,
    memory_bytes=80_000_000_000,
)
HOPPER_PEAKS = {
    torch.float64: 67e12,
    torch.float32: 67e12,
    torch.bfloat16: 989.5e12,  # the 1,979e12 of the data sheet is with sparsity
    torch.float16: 989.5e12,
    torch.float8_e4m3fn: 1979e12,
    torch.float8_e5m2: 1979e12,
}
H100_SXM = Hardware(
    name="H100 SXM", peak_flops=HOPPER_PEAKS, memory_bandwidth=3.35e12, memory_bytes=80_000_000_000
)
H200_SXM = Hardware(
    name="H200 SXM", peak_flops=HOPPER_PEAKS, memory_bandwidth=4.8e12, memory_bytes=141_000_000_000
)


def seconds_to_read_memory(hw: Hardware, share: float = 1.0) -> float:
    """How long it takes to read a share of a device's memory once: a worked neighbour of the functions below.

    seconds = share · bytes of memory / memory bandwidth

    A model that fills this share of the memory cannot make a token faster, as it reads every weight for each.

    Args:
        hw: The device.
        share: How much of the memory is read, between 0 and 1.

    Raises:
        ValueError: `share` is below 0 or above 1.

    Example:
        An H100's whole memory: 80e9 / 3.35e12 = 0.0239 s.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    return share * hw.memory_bytes / hw.memory_bandwidth


def accelerator_intensity(hw: Hardware, dtype: torch.dtype) -> float:
    """How many FLOPs a device computes in the time in which its memory delivers one byte.

    intensity = peak FLOP/s of this dtype / bytes/s

    At this many FLOPs per byte compute and memory take equally long.

    Args:
        hw: The device.
        dtype: What it computes in.

    Raises:
        KeyError: `hw` has no peak for `dtype` (a ValueError is as good). This holds for every function with `hw` and `dtype`.

    Example:
        An H100 in bfloat16: 989.5e12 / 3.35e12 = 295.4 FLOP per byte.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def matmul_intensity(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    """FLOPs per byte of the matrix product C = A B, where A is m × k and B is k × n.

    intensity = 2·m·k·n / bytes of A, B and C, each of them moved once

    Args:
        m: Rows of A and of C.
        k: Columns of A and rows of B.
        n: Columns of B and of C.
        dtype: Of all three matrices; any, float8 and integers as well.

    Example:
        Three square matrices of n = 1024 in bfloat16: 2n³ / (3n² · 2 bytes) = n / 3 = 341.3.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def elementwise_intensity(
    flops_per_element: float, tensors_read: int, tensors_written: int, dtype: torch.dtype
) -> float:
    """FLOPs per byte of an operation that works on each element alone, on tensors of one shape.

    intensity = FLOPs per element / bytes read and written per element

    Args:
        flops_per_element: What one element of the result takes.
        tensors_read: How many tensors are read.
        tensors_written: How many tensors are written.
        dtype: Of all of them; any, float8 and integers as well.

    Example:
        ReLU in bfloat16 takes one FLOP, reads 2 bytes and writes 2: 1 / 4 = 0.25.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def roofline_seconds(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The shortest time in which a device can do this: the longer of computing and moving, as the two overlap.

    seconds = max(FLOPs / peak FLOP/s, bytes / memory bandwidth)

    Args:
        flops: FLOPs in all.
        bytes_moved: Bytes read and written in all.
        hw: The device.
        dtype: What it computes in.

    Example:
        989.5e12 FLOPs and 6.7e12 bytes on an H100 in bfloat16: 1 s of compute under 2 s of traffic take 2 s.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def is_compute_bound(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> bool:
    """Whether computing takes longer than moving the bytes.

    FLOPs / peak FLOP/s > bytes / memory bandwidth. Where both take equally long, either answer is right.

    Args:
        flops: FLOPs in all.
        bytes_moved: Bytes read and written in all.
        hw: The device.
        dtype: What it computes in.

    Example:
        The product of two square bfloat16 matrices on an H100, 2n³ FLOPs and 6n² bytes: False for n = 886, True for 887.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def mfu(
    flops: float, seconds: float, hw: Hardware, dtype: torch.dtype, num_devices: int = 1
) -> float:
    """Model FLOPs utilisation: the share of the devices' peak that useful FLOPs made up.

    MFU = FLOPs / (seconds · devices · peak FLOP/s)

    A result above 1 is returned as it is: it says that a measurement is wrong (a clock that was read before the device was
    done, FLOPs that were never computed), and clamped it would hide that.

    Args:
        flops: Useful FLOPs of all devices together.
        seconds: How long they took.
        hw: What each device is.
        dtype: What they computed in.
        num_devices: How many there were.

    Example:
        3.958e15 FLOPs in one second on 8 H100 in bfloat16: 3.958e15 / (8 · 989.5e12) = 0.5.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def attainable_mfu(intensity: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The highest MFU that work of this intensity can reach: the roof of the roofline plot.

    MFU = min(1, intensity / accelerator intensity)

    Args:
        intensity: FLOPs per byte of the work.
        hw: The device.
        dtype: What it computes in.

    Example:
        A matrix-vector product in bfloat16, about 1 FLOP per byte, on an H100: 1 / 295.4 = 0.0034. The 341.3 of a square
        product of n = 1024: 1.

    Handout §5.1 · roofline · `pytest -k roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


@dataclass(frozen=True)
class TrainingRecipe:
    """What training keeps for each parameter, by dtype.

    Args:
        parameter: Of the parameter that the model computes with.
        gradient: Of its gradient.
        optimizer_state: Of each number that the optimizer keeps: two for AdamW, none for plain SGD.
        master: Of the copy that the optimizer updates, where there is one beside the parameter.

    Example:
        AdamW in float32: TrainingRecipe(torch.float32, torch.float32, (torch.float32, torch.float32)).
    """

    parameter: torch.dtype
    gradient: torch.dtype
    optimizer_state: tuple[torch.dtype, ...]
    master: torch.dtype | None = None


def bytes_per_parameter(recipe: TrainingRecipe) -> int:
    """The bytes that training keeps for one parameter: itself, its gradient, each optimizer state, and the master copy.

    Activations are not counted.

    Args:
        recipe: Which dtypes are kept.

    Example:
        AdamW in float32: 4 + 4 + (4 + 4) = 16. bfloat16 parameter and gradient, float32 states and master: 2 + 2 + 8 + 4 =
        16 as well. The same without a master: 12.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 4 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def max_parameters(memory_bytes: int, recipe: TrainingRecipe, reserve: float = 0.0) -> int:
    """The largest number of parameters whose training state fits in memory, activations aside.

    parameters = ⌊usable / bytes per parameter⌋, usable = memory_bytes · (1 - reserve)

    Args:
        memory_bytes: Bytes of memory, of one device or of all together.
        recipe: What is kept for each parameter.
        reserve: The fraction of the memory that is kept free, for activations and buffers.

    Raises:
        ValueError: `reserve` is above 1: a percentage.

    Example:
        8 H100, 8 · 80e9 bytes: 40,000,000,000 at 16 bytes a parameter, 53,333,333,333 at 12.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 1 line.
    raise NotImplementedError("napkin_math: see handout §5.2")


def min_devices(
    num_parameters: int, recipe: TrainingRecipe, memory_bytes: int, reserve: float = 0.0
) -> int:
    """The fewest devices whose usable memory together holds a model's training state, activations aside.

    devices = ⌈parameters · bytes per parameter / usable⌉, usable = memory_bytes · (1 - reserve)

    Args:
        num_parameters: How many parameters the model has.
        recipe: What is kept for each of them.
        memory_bytes: Bytes of memory of one device.
        reserve: The fraction of each device's memory that is kept free.

    Raises:
        ValueError: `reserve` is above 1: a percentage.

    Example:
        70e9 parameters at 16 bytes are 1120e9 bytes: 14 devices of 80e9. One parameter more takes 15.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 1 line.
    raise NotImplementedError("napkin_math: see handout §5.2")


def training_days(
    num_parameters: int,
    num_tokens: int,
    hw: Hardware,
    dtype: torch.dtype,
    num_devices: int,
    mfu: float,
) -> float:
    """How many days a training run takes.

    days = 6 · parameters · tokens / (devices · MFU · peak FLOP/s) / 86,400

    Args:
        num_parameters: How many parameters the model has.
        num_tokens: How many tokens it is trained on.
        hw: What each device is.
        dtype: What they compute in.
        num_devices: How many there are.
        mfu: The share of the peak that is reached, above 0 and at most 1.

    Raises:
        ValueError: `mfu` is above 1: a percentage.

    Example:
        70e9 parameters, 15e12 tokens, 1024 H100 in bfloat16, MFU 0.5: 6.3e24 / (1024 · 0.5 · 989.5e12 · 86,400) = 143.93.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 3 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def transformer_parameters(config: TransformerConfig) -> int:
    """How many parameters a transformer has: embeddings, and in each layer attention and the feed-forward network.

    parameters = vocabulary · d_model (twice where the embeddings are not tied)
               + layers · (4 · d_model² + 2 · d_model · d_ff), or 3 instead of 2 where the network is gated

    4 · d_model² are the projections to queries, keys, values and the output. Biases, gains of norms and position embeddings
    are not counted.

    Args:
        config: The model's sizes; `flop_counting.TransformerConfig`, or any object with its fields vocab_size,
            context_length, num_layers, d_model, num_heads, d_ff, gated_ffn and tied_embeddings.

    Example:
        vocab_size 10, d_model 4, d_ff 16, 2 layers: 2 · 40 + 2 · (64 + 128) = 464; tied: 424; gated: 592.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 4 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def compute_optimal(flops: float, tokens_per_parameter: float = 20.0) -> tuple[float, float]:
    """The model that a budget of FLOPs should train, and on how many tokens: N parameters and D tokens.

    6 · N · D = flops and D = tokens_per_parameter · N, so N = √(flops / (6 · tokens_per_parameter)). Neither is rounded.

    Args:
        flops: The budget.
        tokens_per_parameter: About 20 is optimal (Hoffmann et al., 2022).

    Example:
        12,000 FLOPs: N = √(12,000 / 120) = 10 and D = 200. 1.915e22 FLOPs: N = 12.6e9 and D = 253e9.

    Handout §5.2 · napkin_math · `pytest -k napkin_math`
    """
    # TODO(napkin_math): about 2 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")
