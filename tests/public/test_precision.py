"""precision: limits of floating-point formats, underflow and block quantization. Handout §2.1."""

import pytest
import torch

from tests import expect

X = torch.tensor([1.0, -4.0, 3.0, 0.5, 6.0])
LEVELS = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])


def codes_and_scales(got):
    """The two tensors that quantize_blocks returned."""
    expect.kind(got, (tuple, list), of="quantize_blocks")
    expect.that(
        len(got) == 2,
        f"expected two tensors, the codes and the scales, got {len(got)} values",
        of="quantize_blocks",
    )
    return got


def test_float_spec_of_the_examples(student):
    """float16 has 1 + 5 + 10 bits and ends at 65504; float8_e4m3fn ends at 448."""
    spec = student.precision.float_spec(torch.float16)
    expect.kind(spec, student.precision.FloatSpec, of="float_spec")
    for field, expected in [("bits", 16), ("exponent_bits", 5), ("mantissa_bits", 10)]:
        expect.value(getattr(spec, field), expected, of="float_spec", name=field, inputs="float16")
    for field, expected in [
        ("max", 65504.0),
        ("smallest_normal", 2.0**-14),
        ("smallest_subnormal", 2.0**-24),
        ("eps", 2.0**-10),
    ]:
        expect.number(
            getattr(spec, field),
            expected,
            of="float_spec",
            tolerance=0,
            name=field,
            inputs="float16",
        )
    largest = student.precision.float_spec(torch.float8_e4m3fn).max
    expect.number(largest, 448.0, of="float_spec", tolerance=0, name="max", inputs="float8_e4m3fn")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e-8, True), (2.0**-25, True), (3e-8, False), (5e-5, False), (-1e-8, True)],
)
def test_underflows_to_zero_of_the_example(student, value, expected):
    """In float16, |v| ≤ 2⁻²⁵ ≈ 2.98e-8 becomes 0; 5e-5, below the smallest normal, does not."""
    got = student.precision.underflows_to_zero(value, torch.float16)
    expect.value(got, expected, of="underflows_to_zero", inputs=f"{value}, float16")


def test_quantize_blocks_of_the_example(student):
    """Scales 4/2 and 6/2; a tie goes to the lower index; the last block has one element."""
    codes, scales = codes_and_scales(student.precision.quantize_blocks(X, 4, LEVELS))
    inputs = f"x {X.tolist()}, block_size 4, levels {LEVELS.tolist()}"
    expect.tensor(
        scales, torch.tensor([2.0, 3.0]), of="quantize_blocks", name="the scales", inputs=inputs
    )
    expected = torch.tensor([2, 0, 3, 2, 4], dtype=torch.uint8)
    expect.tensor(codes, expected, of="quantize_blocks", name="the codes", inputs=inputs)


def test_quantize_blocks_of_zeros(student):
    """A block of zeros has scale 0, and its codes are valid indices."""
    codes, scales = codes_and_scales(student.precision.quantize_blocks(torch.zeros(3), 3, LEVELS))
    expect.tensor(
        scales, torch.zeros(1), of="quantize_blocks", name="the scales", inputs="x [0, 0, 0]"
    )
    expect.kind(codes, torch.Tensor, of="quantize_blocks", name="the codes")
    expect.that(bool((codes < 5).all()), "a code is not an index into levels", of="quantize_blocks")


def test_dequantize_blocks_of_the_example(student):
    """Each code's level times the scale of its block."""
    codes = torch.tensor([2, 0, 3, 2, 4], dtype=torch.uint8)
    got = student.precision.dequantize_blocks(codes, torch.tensor([2.0, 3.0]), 4, LEVELS)
    expected = torch.tensor([0.0, -4.0, 2.0, 0.0, 6.0])
    expect.tensor(
        got,
        expected,
        of="dequantize_blocks",
        inputs="codes [2, 0, 3, 2, 4], scales [2, 3], block_size 4",
    )
