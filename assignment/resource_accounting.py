"""Chapter 5: rooflines and napkin math: how long training takes, and what fits in memory.

A device has two speeds: how fast it computes (FLOP/s, different for each dtype) and how fast it
reads and writes its memory (bytes/s). Computation and memory traffic overlap, so the slower of the
two sets the time. A few more multiplications give the number of parameters that fit in memory, the
devices and days that a training run takes, and the model that a budget of FLOPs should train.

Bytes are plain bytes (1 GB = 10⁹), times are in seconds, and a multiply and an add are two FLOPs.
Where a tie or a rounding error decides between two answers, either is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # only the annotations need this import
    from assignment.flop_counting import TransformerConfig


@dataclass(frozen=True)
class Hardware:
    """One device, as its vendor's data sheet describes it.

    Args:
        name: The device's name.
        peak_flops: Dense FLOP/s by dtype, without the factor of 2 that data sheets add for
            structured sparsity. A dtype for which the device has no peak is missing.
        memory_bandwidth: Bytes/s between the device's memory and its processors.
        memory_bytes: Bytes of the device's memory.
    """

    name: str
    peak_flops: Mapping[torch.dtype, float]
    memory_bandwidth: float
    memory_bytes: int


# Dense peaks of the SXM models from NVIDIA's data sheets. Memory counts 10⁹ bytes to the gigabyte;
# the devices have about 7 % more, some of which CUDA and the driver take. float32 is without TF32,
# the default of torch.matmul. float64 is with tensor cores, which torch.matmul uses (without them:
# 9.7e12 and 34e12).
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
    torch.bfloat16: 989.5e12,  # the data sheet's 1,979e12 is with sparsity
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
    """The time to read a share of a device's memory once: a solved example for this module.

    seconds = share · bytes of memory / memory bandwidth

    A model that fills this share of the memory cannot generate a token in less time, because it
    reads every weight for each token.

    Args:
        hw: The device.
        share: The fraction of the memory that is read, between 0 and 1.

    Raises:
        ValueError: `share` is below 0 or above 1.

    Example:
        An H100's whole memory: 80e9 / 3.35e12 = 0.0239 s.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, got {share}")
    return share * hw.memory_bytes / hw.memory_bandwidth


def accelerator_intensity(hw: Hardware, dtype: torch.dtype) -> float:
    """The FLOPs that a device computes while its memory delivers one byte.

    intensity = peak FLOP/s of this dtype / bytes/s

    Args:
        hw: The device.
        dtype: The dtype of the computation.

    Raises:
        KeyError or ValueError: `hw` has no peak for `dtype`, here and below.

    Example:
        An H100 in bfloat16: 989.5e12 / 3.35e12 = 295.4 FLOP per byte.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def matmul_intensity(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    """FLOPs per byte of the product C = A B of an m × k and a k × n matrix.

    intensity = 2·m·k·n / bytes of A, B and C, each moved once

    Args:
        m, k, n: The sizes.
        dtype: The dtype of all three matrices.

    Example:
        n × n matrices of 2-byte elements, n = 1024: 2n³/(3n²·2) = n/3 = 341.3.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def elementwise_intensity(
    flops_per_element: float, tensors_read: int, tensors_written: int, dtype: torch.dtype
) -> float:
    """FLOPs per byte of an element-wise operation on tensors of one shape.

    FLOPs per element / bytes read and written per element

    Args:
        flops_per_element: FLOPs per element of the result.
        tensors_read, tensors_written: Numbers of tensors.
        dtype: The dtype of all these tensors.

    Example:
        ReLU in bfloat16: 1 FLOP per 2 + 2 bytes, 0.25.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def roofline_seconds(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The shortest time in which a device can compute these FLOPs and move these bytes.

    max(FLOPs / peak FLOP/s, bytes / memory bandwidth)

    Args:
        flops: Total FLOPs.
        bytes_moved: Total bytes read and written.
        hw, dtype: The device and the computation's dtype.

    Example:
        989.5e12 FLOPs (1 s) and 6.7e12 bytes (2 s) on an H100 in bfloat16: 2 s.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def is_compute_bound(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> bool:
    """Whether computing takes longer than moving the bytes.

    FLOPs / peak FLOP/s > bytes / memory bandwidth

    Args:
        flops, bytes_moved, hw, dtype: As in `roofline_seconds`.

    Example:
        2n³ FLOPs and 6n² bytes on an H100 in bfloat16: False for n = 886, True for 887.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def mfu(
    flops: float, seconds: float, hw: Hardware, dtype: torch.dtype, num_devices: int = 1
) -> float:
    """Model FLOPs utilisation: useful FLOPs as a fraction of what the devices could compute.

    FLOPs / (seconds · devices · peak FLOP/s)

    Do not clamp the result.

    Args:
        flops: Useful FLOPs of all devices.
        seconds: The time they took.
        hw, dtype: Each device and the computation's dtype.
        num_devices: Number of devices.

    Example:
        3.958e15 FLOPs in 1 s on 8 H100 in bfloat16: 0.5.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def attainable_mfu(intensity: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The highest MFU at a given intensity: the roof of the roofline plot.

    min(1, intensity / accelerator intensity)

    Args:
        intensity: FLOPs per byte of the work.
        hw, dtype: The device and the computation's dtype.

    Example:
        1 FLOP per byte on an H100 in bfloat16: 1/295.4 = 0.0034.

    Handout §5.1
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def min_rows(k: int, n: int, hw: Hardware, dtype: torch.dtype) -> int | None:
    """The fewest rows m for which an m × k times a k × n product is compute-bound.

    Return None if no number of rows is enough.

    Args:
        k, n: Rows and columns of the weights.
        hw: The device.
        dtype: The dtype of the matrices and of the computation.

    Example:
        2,048 × 8,192 in bfloat16 on an H100: 361. 512 × 512: None.

    Handout §5.1
    """
    # TODO(roofline): about 5 lines.
    raise NotImplementedError("roofline: see handout §5.1")


@dataclass(frozen=True)
class TrainingRecipe:
    """The dtypes of the numbers that training keeps for each parameter.

    Args:
        parameter: The dtype of the parameter that the model computes with.
        gradient: The dtype of the gradient.
        optimizer_state: One dtype per number that the optimizer keeps: two for AdamW, none for
            plain SGD.
        master: The dtype of the master copy, a separate copy of the parameter that the optimizer
            updates; None if there is no such copy.

    Example:
        AdamW in float32: TrainingRecipe(torch.float32, torch.float32,
        (torch.float32, torch.float32)).
    """

    parameter: torch.dtype
    gradient: torch.dtype
    optimizer_state: tuple[torch.dtype, ...]
    master: torch.dtype | None = None


def bytes_per_parameter(recipe: TrainingRecipe) -> int:
    """The bytes that training keeps per parameter, without activations.

    The parameter, its gradient, each optimizer state and the master copy, if there is one.

    Args:
        recipe: The dtypes that training keeps.

    Example:
        AdamW in bfloat16 with float32 states and master: 2 + 2 + 8 + 4 = 16.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 4 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def max_parameters(memory_bytes: int, recipe: TrainingRecipe, reserve: float = 0.0) -> int:
    """The most parameters whose training state, without activations, fits in memory.

    ⌊memory_bytes · (1 - reserve) / bytes per parameter⌋

    Args:
        memory_bytes: Bytes of memory, of one or all devices.
        recipe: The dtypes that training keeps.
        reserve: The fraction of the memory that is kept free, below 1.

    Raises:
        ValueError: `reserve` is above 1.

    Example:
        640e9 bytes, 16 bytes per parameter: 40,000,000,000.

    Handout §5.2
    """
    # TODO(napkin_math): about 1 line.
    raise NotImplementedError("napkin_math: see handout §5.2")


def min_devices(
    num_parameters: int, recipe: TrainingRecipe, memory_bytes: int, reserve: float = 0.0
) -> int:
    """The fewest devices that together hold a model's training state, without activations.

    ⌈parameters · bytes per parameter / (memory_bytes · (1 - reserve))⌉

    Args:
        num_parameters: Parameters of the model.
        recipe, reserve: As in `max_parameters`.
        memory_bytes: Bytes of memory per device.

    Raises:
        ValueError: `reserve` is above 1.

    Example:
        70e9 parameters of 16 bytes fill 14 devices of 80e9 bytes.

    Handout §5.2
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
    """The days that a training run takes.

    6·parameters·tokens / (devices · MFU · peak FLOP/s) / 86,400

    Args:
        num_parameters, num_tokens: Sizes of the model and its data.
        hw, dtype, num_devices: As in the function `mfu`.
        mfu: The share of the peak that is reached.

    Raises:
        ValueError: `mfu` is above 1.

    Example:
        70e9 parameters, 15e12 tokens, 1024 H100 in bfloat16, MFU 0.5: 143.93.

    Handout §5.2
    """
    # TODO(napkin_math): about 3 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


@dataclass(frozen=True)
class Offer:
    """Devices that can be rented.

    Args:
        hw: The kind of each device.
        dollars: The price of one device for one hour.
        devices_per_node: Devices are rented in whole nodes of this many.
        nodes: Number of nodes that can be rented.
    """

    hw: Hardware
    dollars: float
    devices_per_node: int
    nodes: int


def cheapest_cluster(
    num_parameters: int,
    num_tokens: int,
    recipe: TrainingRecipe,
    dtype: torch.dtype,
    mfu: float,
    max_days: float,
    offers: Sequence[Offer],
) -> tuple[Offer, int] | None:
    """The offer that trains a model for the least money, and the number of its devices.

    Of each offer, rent the fewest whole nodes that together hold the training state and finish in
    time. An offer with too few nodes, or whose device has no peak for `dtype`, cannot be used. The
    bill is devices · hours of the run · dollars. Return None if no offer can be used.

    Args:
        num_parameters, num_tokens, dtype, mfu: As in `training_days`.
        recipe: The dtypes that training keeps.
        max_days: The most days that the run may take.
        offers: Those to choose from.

    Example:
        1e9 parameters, 20e9 tokens, AdamW in float32, bfloat16 at MFU 0.4, half a day: 8 H100 at 3
        dollars cost 252.65, 24 A100 at 1 dollar 267.09. So (the H100 offer, 8).

    Handout §5.2
    """
    # TODO(napkin_math): about 14 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def transformer_parameters(config: TransformerConfig) -> int:
    """The number of parameters of a transformer.

    vocabulary · d_model, twice if the embeddings are not tied,
    + layers · 2·d_model · (query_width + kv_width)
    + layers · 2·d_model·d_ff (or 3 instead of 2 if gated) · all FFNs of a layer

    Biases, norms, positions and routers are not counted.

    Args:
        config: A `flop_counting.TransformerConfig`, or any object with its fields and properties.

    Example:
        vocab_size 10, d_model 4, 2 heads, d_ff 16, 2 layers: 2·40 + 2·(64 + 128) = 464.
        With kv_heads 1, 3 experts and a shared one: 2·40 + 2·(48 + 4·128) = 1,200.

    Handout §5.2
    """
    # TODO(napkin_math): about 5 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def compute_optimal(flops: float, tokens_per_parameter: float = 20.0) -> tuple[float, float]:
    """The numbers of parameters N and tokens D that make the best use of a budget of FLOPs.

    6·N·D = flops and D = tokens_per_parameter · N, neither rounded

    Args:
        flops: The budget.
        tokens_per_parameter: D / N.

    Example:
        12,000 FLOPs: N = √(12,000 / 120) = 10 and D = 200.

    Handout §5.2
    """
    # TODO(napkin_math): about 2 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")
