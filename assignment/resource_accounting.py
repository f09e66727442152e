"""Chapter 5: rooflines and napkin math: how long training takes, and what fits in memory.

A device has two speeds: how fast it computes (FLOP/s, different for each dtype) and how fast it
reads and writes its memory (bytes/s). Computation and memory traffic overlap, so the slower of the
two sets the time. A few more multiplications give the number of parameters that fit in memory, the
devices and days that a training run takes, and the model that a budget of FLOPs should train.

Bytes are plain bytes (1 GB = 10⁹), times are in seconds, and a multiply and an add are two FLOPs.
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
    """The FLOPs that a device can compute in the time that its memory takes to deliver one byte.

    intensity = peak FLOP/s of this dtype / bytes/s

    At this intensity, computation and memory traffic take equally long.

    Args:
        hw: The device.
        dtype: The dtype of the computation.

    Raises:
        KeyError: `hw` has no peak for `dtype`. (A ValueError is just as good.) This holds for every
            function that takes `hw` and `dtype`.

    Example:
        An H100 in bfloat16: 989.5e12 / 3.35e12 = 295.4 FLOP per byte.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def matmul_intensity(m: int, k: int, n: int, dtype: torch.dtype) -> float:
    """FLOPs per byte of the matrix product C = A B, where A is m × k and B is k × n.

    intensity = 2·m·k·n / bytes of A, B and C, each moved once

    Args:
        m: Rows of A and of C, at least 1.
        k: Columns of A and rows of B, at least 1.
        n: Columns of B and of C, at least 1.
        dtype: The dtype of all three matrices. Any dtype works, including float8 and integers.

    Example:
        Three square matrices of n = 1024 in bfloat16: 2n³ / (3n² · 2 bytes) = n / 3 = 341.3.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def elementwise_intensity(
    flops_per_element: float, tensors_read: int, tensors_written: int, dtype: torch.dtype
) -> float:
    """FLOPs per byte of an element-wise operation on tensors of one shape.

    intensity = FLOPs per element / bytes read and written per element

    Args:
        flops_per_element: FLOPs per element of the result.
        tensors_read: Number of tensors read.
        tensors_written: Number of tensors written.
        dtype: The dtype of all these tensors. Any dtype works, including float8 and integers.

    Example:
        ReLU in bfloat16 takes one FLOP, reads 2 bytes and writes 2: 1 / 4 = 0.25.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def roofline_seconds(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The shortest time in which a device can compute these FLOPs and move these bytes.

    seconds = max(FLOPs / peak FLOP/s, bytes / memory bandwidth)

    Computing and moving overlap, so the longer of the two decides.

    Args:
        flops: Total FLOPs, 0 or more.
        bytes_moved: Total bytes read and written, 0 or more.
        hw: The device.
        dtype: The dtype of the computation.

    Example:
        989.5e12 FLOPs and 6.7e12 bytes on an H100 in bfloat16: 1 s of computation overlaps with 2 s
        of traffic, so the result is 2 s.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def is_compute_bound(flops: float, bytes_moved: float, hw: Hardware, dtype: torch.dtype) -> bool:
    """Whether computing takes longer than moving the bytes.

    FLOPs / peak FLOP/s > bytes / memory bandwidth

    If both take equally long, either answer is right.

    Args:
        flops: Total FLOPs, 0 or more.
        bytes_moved: Total bytes read and written, 0 or more.
        hw: The device.
        dtype: The dtype of the computation.

    Example:
        The product of two square bfloat16 matrices on an H100, with 2n³ FLOPs and 6n² bytes: False
        for n = 886, True for n = 887.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def mfu(
    flops: float, seconds: float, hw: Hardware, dtype: torch.dtype, num_devices: int = 1
) -> float:
    """Model FLOPs utilisation: useful FLOPs as a fraction of what the devices can do at their peak.

    MFU = FLOPs / (seconds · devices · peak FLOP/s)

    Return a result above 1 as it is, without clamping it. Such a result shows that a measurement is
    wrong: for example, the clock was read before the device was done, or some of the FLOPs were
    never computed.

    Args:
        flops: Useful FLOPs, summed over all devices.
        seconds: The time that these FLOPs took.
        hw: The kind of each device.
        dtype: The dtype of the computation.
        num_devices: Number of devices.

    Example:
        3.958e15 FLOPs in one second on 8 H100 in bfloat16: 3.958e15 / (8 · 989.5e12) = 0.5.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def attainable_mfu(intensity: float, hw: Hardware, dtype: torch.dtype) -> float:
    """The highest MFU at a given intensity: the roof of the roofline plot.

    MFU = min(1, intensity / accelerator intensity)

    Args:
        intensity: FLOPs per byte of the work.
        hw: The device.
        dtype: The dtype of the computation.

    Example:
        On an H100 in bfloat16, a matrix-vector product at about 1 FLOP per byte reaches at
        most 1 / 295.4 = 0.0034. A product of square matrices of n = 1024, at 341.3 FLOPs per
        byte, can reach 1.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 1 line.
    raise NotImplementedError("roofline: see handout §5.1")


def min_rows(k: int, n: int, hw: Hardware, dtype: torch.dtype) -> int | None:
    """The fewest rows m for which a product of m × k and k × n is compute-bound on a device.

    In a model the k × n matrix is a layer's weights, and the rows are the tokens of a batch. More
    rows use each weight more often, so the intensity rises with m. But it does not rise without
    limit, and for a small matrix no number of rows is enough.

    Where a rounding error decides between two neighbours, either of them is right.

    Args:
        k: Rows of the weights, at least 1.
        n: Columns of the weights, at least 1.
        hw: The device.
        dtype: The dtype of all three matrices and of the computation.

    Returns:
        The fewest rows, at least 1; None if the product is memory-bound for any number of rows.

    Example:
        A 2,048 × 8,192 matrix in bfloat16 on an H100: 361 rows. A 512 × 512 matrix: None, because
        its product with any matrix has fewer than 256 FLOPs per byte, and an H100 computes 295.4.

    Handout §5.1 · `python -m assignment check roofline`
    """
    # TODO(roofline): about 5 lines.
    raise NotImplementedError("roofline: see handout §5.1")


@dataclass(frozen=True)
class TrainingRecipe:
    """The dtypes of the numbers that training keeps for each parameter.

    Any dtypes are allowed, also integers, complex numbers and bool.

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
    """The bytes that training keeps per parameter.

    These are the bytes of the parameter itself, its gradient, each of its optimizer states and its
    master copy, if there is one. Activations are not counted.

    Args:
        recipe: The dtypes that training keeps.

    Example:
        AdamW in float32: 4 + 4 + (4 + 4) = 16. With bfloat16 parameter and gradient, and float32
        states and master, 2 + 2 + 8 + 4 = 16 as well. The same without a master: 12.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 4 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def max_parameters(memory_bytes: int, recipe: TrainingRecipe, reserve: float = 0.0) -> int:
    """The largest number of parameters whose training state, without activations, fits in memory.

    parameters = ⌊usable / bytes per parameter⌋, usable = memory_bytes · (1 - reserve)

    Only the result is rounded. It is exact, even above 2⁵³.

    Args:
        memory_bytes: Bytes of memory, of one device or of all devices together.
        recipe: The dtypes that training keeps for each parameter.
        reserve: The fraction of the memory that is kept free, for activations and buffers, from 0
            to 1. Where 1 - reserve is not exact as a float, as for 0.1, rounding it is right, too.

    Raises:
        ValueError: `reserve` is above 1, as a percentage would be.

    Example:
        8 H100 with 8 · 80e9 bytes: 40,000,000,000 parameters at 16 bytes each, 53,333,333,333 at
        12 bytes each.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 1 line.
    raise NotImplementedError("napkin_math: see handout §5.2")


def min_devices(
    num_parameters: int, recipe: TrainingRecipe, memory_bytes: int, reserve: float = 0.0
) -> int:
    """The fewest devices whose memory together holds a model's training state, without activations.

    devices = ⌈parameters · bytes per parameter / usable⌉, usable = memory_bytes · (1 - reserve)

    Only the result is rounded. It is exact, even above 2⁵³.

    Args:
        num_parameters: Number of parameters of the model.
        recipe: The dtypes that training keeps for each parameter.
        memory_bytes: Bytes of memory per device.
        reserve: The fraction of each device's memory that is kept free, less than 1. Where
            1 - reserve is not exact as a float, as for 0.1, rounding it is right, too.

    Raises:
        ValueError: `reserve` is above 1, as a percentage would be.

    Example:
        70e9 parameters at 16 bytes each are 1120e9 bytes: 14 devices with 80e9 bytes each. One more
        parameter needs 15 devices.

    Handout §5.2 · `python -m assignment check napkin_math`
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
    """The number of days that a training run takes.

    days = 6 · parameters · tokens / (devices · MFU · peak FLOP/s) / 86,400

    Args:
        num_parameters: Number of parameters of the model.
        num_tokens: Number of tokens that the model is trained on.
        hw: The kind of each device.
        dtype: The dtype of the computation.
        num_devices: Number of devices.
        mfu: The share of the peak that is reached, above 0 and at most 1.

    Raises:
        ValueError: `mfu` is above 1, as a percentage would be.

    Example:
        70e9 parameters, 15e12 tokens, 1024 H100 in bfloat16, MFU 0.5:
        6.3e24 / (1024 · 0.5 · 989.5e12 · 86,400) = 143.93.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 3 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


@dataclass(frozen=True)
class Offer:
    """Devices that can be rented.

    Args:
        hw: The kind of each device.
        dollars: The price of one device for one hour, 0 or more.
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
    """The offer that trains a model for the least money within a number of days.

    Of each offer, rent the fewest whole nodes whose memory together holds the training state and
    that finish in time. An offer cannot be used if it has too few nodes for that, or if its device
    has no peak for `dtype`. The bill is devices · hours · dollars, where the hours are those of the
    run on these devices.

    If two offers cost the same, either is right. So is either number of nodes where a rounding
    error decides between two neighbours.

    Args:
        num_parameters: Number of parameters of the model.
        num_tokens: Number of tokens that the model is trained on.
        recipe: The dtypes that training keeps for each parameter, split among all devices.
        dtype: The dtype of the computation.
        mfu: The share of the peak that is reached on each device, above 0 and at most 1.
        max_days: The longest time that the run may take, in days.
        offers: The offers to choose from.

    Returns:
        The best offer and the number of its devices; None if no offer can be used.

    Example:
        1e9 parameters, 20e9 tokens, AdamW in float32, computing in bfloat16 at an MFU of 0.4 within
        half a day. With nodes of 8 H100 at 3 dollars, one node finishes in 0.439 days for 252.65
        dollars. With nodes of 8 A100 80GB at 1 dollar, three nodes finish in 0.464 days for 267.09
        dollars. So the result is the offer of H100, and 8.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 14 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def transformer_parameters(config: TransformerConfig) -> int:
    """The number of parameters of a transformer: embeddings, attention and feed-forward networks.

    parameters = vocabulary · d_model (twice if the embeddings are not tied)
               + layers · (4 · d_model² + 2 · d_model · d_ff), or 3 instead of 2 if the FFN is gated

    The term 4 · d_model² counts the projections to queries, keys, values and the output. Biases,
    gains of norms and position embeddings are not counted.

    Args:
        config: The model's sizes, as a `flop_counting.TransformerConfig` or any object with the
            same fields: vocab_size, context_length, num_layers, d_model, num_heads, d_ff, gated_ffn
            and tied_embeddings.

    Example:
        vocab_size 10, d_model 4, d_ff 16, 2 layers: 2 · 40 + 2 · (64 + 128) = 464; tied:
        424; gated: 592.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 4 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")


def compute_optimal(flops: float, tokens_per_parameter: float = 20.0) -> tuple[float, float]:
    """The numbers of parameters N and tokens D that make the best use of a budget of FLOPs.

    6 · N · D = flops and D = tokens_per_parameter · N,
    so N = √(flops / (6 · tokens_per_parameter))

    For a budget of 0, both are 0. Neither N nor D is rounded.

    Args:
        flops: The budget, in FLOPs.
        tokens_per_parameter: About 20 is optimal (Hoffmann et al., 2022).

    Example:
        12,000 FLOPs: N = √(12,000 / 120) = 10 and D = 200. 1.915e22 FLOPs: N = 12.6e9
        and D = 253e9.

    Handout §5.2 · `python -m assignment check napkin_math`
    """
    # TODO(napkin_math): about 2 lines.
    raise NotImplementedError("napkin_math: see handout §5.2")
