"""Chapter 2: the range of floating-point formats, underflow, and block quantization.

A floating-point number has a sign bit, e exponent bits and m mantissa bits. The exponent bits
determine the range of the numbers, and the mantissa bits determine the distance between neighbours.
With bias = 2^(e-1) - 1, an exponent field E and a mantissa field M represent

    (-1)^sign · 2^(E - bias) · (1 + M/2^m)        E > 0, a normal number
    (-1)^sign · 2^(1 - bias) · (0 + M/2^m)        E = 0, a subnormal number, or 0

In most formats the largest E is reserved for infinity and NaN.

To quantize numbers in blocks is to store each as the index of a level, its code, with one scale per
block of neighbours. Numbers and levels may have any floating-point dtype.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, UInt8
from torch import Tensor


def float32_fields(value: float) -> tuple[int, int, int]:
    """The three bit fields of a float32 number as unsigned integers: a solved example.

    From the highest to the lowest, the 32 bits are 1 sign bit, 8 exponent bits and 23
    mantissa bits.

    Args:
        value: Any number; it is rounded to float32 first.

    Returns:
        Sign, exponent field and mantissa field.

    Example:
        -6.5 = -2² · 1.625 has sign 1, exponent 2 + 127 = 129 and mantissa 0.625 · 2²³ = 5,242,880.
    """
    (bits,) = torch.tensor([value], dtype=torch.float32).view(torch.int32).tolist()
    return bits >> 31 & 1, bits >> 23 & 0xFF, bits & 0x7FFFFF


@dataclass(frozen=True)
class FloatSpec:
    """The size and the limits of a floating-point format.

    Attributes:
        bits: The number of all bits, including the sign bit.
        exponent_bits: The number of bits of the exponent field.
        mantissa_bits: The number of mantissa bits that are stored. The leading 1 of a normal number
            is not stored.
        max: The largest finite number.
        smallest_normal: The smallest positive number whose leading 1 is implied.
        smallest_subnormal: The smallest positive number of all.
        eps: The distance from 1 to the next larger number.
    """

    bits: int
    exponent_bits: int
    mantissa_bits: int
    max: float
    smallest_normal: float
    smallest_subnormal: float
    eps: float


def float_spec(dtype: torch.dtype) -> FloatSpec:
    """The size and the limits of a floating-point dtype.

    Args:
        dtype: One of torch.float64, float32, float16, bfloat16, float8_e4m3fn and float8_e5m2.

    Example:
        float16 has 1 + 5 + 10 bits, max = 65504, smallest_normal = 2⁻¹⁴,
        smallest_subnormal = 2⁻²⁴, eps = 2⁻¹⁰. float8_e4m3fn has no infinity, and its max is 448.

    Handout §2.1 · `python -m assignment check precision`
    """
    # TODO(precision): about 11 lines.
    raise NotImplementedError("precision: see handout §2.1")


def underflows_to_zero(value: float, dtype: torch.dtype) -> bool:
    """Whether a number becomes 0 when it is rounded to a dtype.

    It does if |value| is at most half of the smallest subnormal.

    Args:
        value: A number of either sign.
        dtype: As in `float_spec`.

    Example:
        In float16, 2⁻²⁵ ≈ 2.98e-8 becomes 0, and 3e-8 does not.

    Handout §2.1
    """
    # TODO(precision): about 1 line.
    raise NotImplementedError("precision: see handout §2.1")


def quantize_blocks(
    x: Float[Tensor, "n"], block_size: int, levels: Float[Tensor, "k"]
) -> tuple[UInt8[Tensor, "n"], Float32[Tensor, "blocks"]]:
    """Store each number as the index of a level, with one scale per block of neighbours.

    scale = largest |x| of the block / largest |level|
    code  = the index whose scale · level is nearest to x; in a tie, the lower index

    Compute in float32 or wider. A block of zeros has scale 0 and any codes below k. Do not clamp
    the scale.

    Args:
        x: The numbers.
        block_size: Elements per block; the last block may be shorter.
        levels: At most 256 numbers in any order, not all of them 0.

    Example:
        x = (1, -4, 3, 0.5, 6), block_size 4, levels (-2, -1, 0, 1, 2):
        codes (2, 0, 3, 2, 4) and scales (2, 3).

    Handout §2.1
    """
    # TODO(precision): about 5 lines.
    raise NotImplementedError("precision: see handout §2.1")


def dequantize_blocks(
    codes: UInt8[Tensor, "n"],
    scales: Float32[Tensor, "blocks"],
    block_size: int,
    levels: Float[Tensor, "k"],
) -> Float32[Tensor, "n"]:
    """Turn codes and scales back into float32 numbers.

    x[i] = scales[i // block_size] · levels[codes[i]]

    Args:
        codes, scales, block_size, levels: As in `quantize_blocks`.

    Example:
        Codes (2, 0, 3, 2, 4), scales (2, 3), block_size 4, levels (-2, -1, 0, 1, 2):
        (0, -4, 2, 0, 6).

    Handout §2.1
    """
    # TODO(precision): about 1 line.
    raise NotImplementedError("precision: see handout §2.1")
