"""precision: the numbers of a format, the numbers that it rounds to 0, and block quantization.

Accepted on purpose: a whole number as an int or a float, numpy's numbers, and a bool in a tensor,
except in the tests that ask for a type; fields within 1e-12 of the exact ones; codes and scales as
a tuple or a list, and codes of any integer dtype except in the test that asks for uint8; any code
below k for a block whose scale is 0; a scale from a quotient or from the product with a reciprocal,
in float32 or float64; the nearest level found by x / scale, by scale · level, by midpoints or by
sorting, with the scale rounded to float32 before or after. If rounding cannot decide which of two
levels is nearer, either one is right. Exact ties are tested only where scales, levels and midpoints
are small integers times powers of two, so that nothing rounds. Not tested: other dtypes, no
elements, no levels or only zeros, a block_size below 1, NaN and infinities in a tensor, codes
without a level.

The oracles are torch.finfo, the formats' closed forms in exact fractions, and distances in float64.
A code is judged together with its own scale, and dequantize_blocks gets codes and scales made by
the test, so that each mistake costs points once.
"""

import math
from fractions import Fraction

import pytest
import torch

from tests import expect
from tests.probes import call_and_keep_inputs
from tests.probes import precision as probes

# dtype: (exponent bits, mantissa bits), as in the names of the fp8 formats
FORMATS = {
    "float64": (11, 52),
    "float32": (8, 23),
    "float16": (5, 10),
    "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3),
    "float8_e5m2": (5, 2),
}
# The dtypes whose smallest subnormal can be halved as a Python float.
NARROW = [dtype for dtype in FORMATS if dtype != "float64"]
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
EPS32 = torch.finfo(torch.float32).eps
MAGNITUDES = (1e-8, 1e-4, 1.0, 1e4)  # of gradients, weights and activations in training


def uniform(rng, low, high):
    return low + (high - low) * torch.rand((), generator=rng, dtype=torch.float64).item()


def integers(rng, low, high, count):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def half_of_the_smallest(dtype):
    """Half of the smallest subnormal, 2^(-bias - mantissa bits), as an exact fraction."""
    exponent_bits, mantissa_bits = FORMATS[dtype]
    return Fraction(2) ** -(2 ** (exponent_bits - 1) - 1 + mantissa_bits)


def specs(student, dtypes=tuple(FORMATS)):
    """Pair each dtype with the fields of its float_spec."""
    return zip(dtypes, student.run(probes.specs, dtypes=list(dtypes)), strict=True)


def check_field(dtype, fields, field, expected, *, hint):
    """Check that a float_spec field is within 1e-12 of the expected value, as a float or int."""
    name = f"{field} of {dtype}"
    expect.kind(fields[field], (float, int), of="float_spec", name=name, hint=hint)
    expect.number(
        fields[field], expected, of="float_spec", tolerance=1e-12 * expected, name=name, hint=hint
    )


def check_underflows(student, dtype, cases, *, hint):
    """Check underflows_to_zero for each value; the answer may be a bool or a tensor of one bool."""
    got = student.run(probes.underflows, values=list(cases), dtype=dtype)
    for answer, (value, expected) in zip(got, cases.items(), strict=True):
        one = (
            isinstance(answer, torch.Tensor) and answer.dtype == torch.bool and answer.numel() == 1
        )
        answer = bool(answer) if one and answer.device.type == "cpu" else answer
        name, inputs = f"the answer for {dtype}", f"{value!r}, {dtype}"
        expect.value(answer, expected, of="underflows_to_zero", name=name, inputs=inputs, hint=hint)


@pytest.mark.core
@pytest.mark.points(8)
def test_bits_of_every_format(student):
    """bits is the sum of one sign bit, the exponent bits and the stored mantissa bits."""
    for dtype, got in specs(student):
        exponent_bits, mantissa_bits = FORMATS[dtype]
        hint = "the sign takes one bit, and the leading 1 of a normal number is not stored"
        check_field(dtype, got, "bits", 1 + exponent_bits + mantissa_bits, hint=hint)
        check_field(dtype, got, "exponent_bits", exponent_bits, hint=hint)
        check_field(dtype, got, "mantissa_bits", mantissa_bits, hint=hint)


def test_counts_of_bits_are_ints(student):
    """bits, exponent_bits and mantissa_bits are ints."""
    (_, wide), (_, narrow) = specs(student, ["float32", "bfloat16"])
    for field in ("bits", "exponent_bits", "mantissa_bits"):
        for got in (wide, narrow):
            expect.kind(
                got[field],
                int,
                of="float_spec",
                name=field,
                hint="a count is an int; math.log2 gives a float",
            )
    expect.that(
        wide["bits"] > narrow["bits"],
        "float32 does not have more bits than bfloat16",
        of="float_spec",
    )


@pytest.mark.core
@pytest.mark.points(4)
def test_largest_number(student):
    """In formats with infinities the largest finite number is 2^bias · (2 - 2^-mantissa_bits)."""
    for dtype, got in specs(student, [dtype for dtype in FORMATS if dtype != "float8_e4m3fn"]):
        hint = (
            "the largest exponent field is reserved for infinity and NaN; below it, the "
            "largest number has all mantissa bits 1"
        )
        check_field(dtype, got, "max", torch.finfo(getattr(torch, dtype)).max, hint=hint)


@pytest.mark.points(2)
def test_largest_number_without_infinity(student):
    """float8_e4m3fn has no infinity: its largest exponent holds numbers too, up to 448."""
    for dtype, got in specs(student, ["float8_e4m3fn"]):
        hint = (
            "at the largest exponent only the mantissa 111 is reserved, for NaN: what is the "
            "largest number then?"
        )
        check_field(dtype, got, "max", 448.0, hint=hint)


@pytest.mark.points(3)
def test_smallest_normal_number(student):
    """The smallest normal number is 2^(1 - bias)."""
    for dtype, got in specs(student):
        expected = torch.finfo(getattr(torch, dtype)).smallest_normal
        check_field(
            dtype,
            got,
            "smallest_normal",
            expected,
            hint="exponent field 0 is reserved for subnormal numbers and 0",
        )


@pytest.mark.core
@pytest.mark.points(5)
def test_smallest_subnormal_number(student):
    """The smallest subnormal number is 2^(1 - bias - mantissa_bits), in float64 as well."""
    for dtype, got in specs(student):
        expected = float(2 * half_of_the_smallest(dtype))
        hint = (
            "subnormal numbers divide the interval from 0 to the smallest normal number into "
            "2^mantissa_bits steps"
        )
        check_field(dtype, got, "smallest_subnormal", expected, hint=hint)


@pytest.mark.points(3)
def test_eps_is_the_gap_after_one(student):
    """eps is the distance from 1 to the next larger number, not half of it."""
    for dtype, got in specs(student):
        expected = torch.finfo(getattr(torch, dtype)).eps
        check_field(
            dtype, got, "eps", expected, hint="which number comes after 1, and how far away is it?"
        )


# Stays: this test checks the rule itself. Code that gets the rule wrong also fails the test of
# numbers next to the limit, but that test is about rounding.
@pytest.mark.core
@pytest.mark.points(9)
def test_small_numbers_become_zero(student, rng):
    """A number below half of the smallest subnormal becomes 0; a number above that does not."""
    for dtype, (_, mantissa_bits) in FORMATS.items():
        limit = half_of_the_smallest(dtype)
        factors = [
            Fraction(1, 1000),
            Fraction(1, 8),
            Fraction(1, 2),
            Fraction(99, 100),
            Fraction(101, 100),
        ]
        factors += [2, 3, 2**mantissa_bits, 1 / limit]
        values = [float(limit * factor * Fraction(uniform(rng, 1.0, 1.009))) for factor in factors]
        # Another test checks 0 itself.
        cases = {value: value < limit for value in values if value}
        hint = "a number between 0 and the smallest subnormal rounds to the nearer of the two"
        check_underflows(student, dtype, cases, hint=hint)


@pytest.mark.points(3)
def test_a_tie_becomes_zero(student):
    """Exactly half of the smallest subnormal becomes 0, because 0 is even."""
    for dtype in NARROW:
        cases = {1.0: False, float(half_of_the_smallest(dtype)): True}
        check_underflows(
            student, dtype, cases, hint="a tie goes to the number whose mantissa is even"
        )


@pytest.mark.points(3)
def test_the_sign_does_not_matter(student, rng):
    """A negative number becomes 0 exactly if its absolute value does."""
    for dtype in NARROW:
        limit, normal = half_of_the_smallest(dtype), 2 ** (FORMATS[dtype][1] + 1)
        small = -float(limit * Fraction(uniform(rng, 0.1, 0.9)))
        cases = {small: True, -float(limit * normal): False, -float(limit * 5 * normal): False}
        check_underflows(student, dtype, cases, hint="compare the absolute value")


@pytest.mark.points(2)
def test_zero_and_numbers_that_are_not_finite(student):
    """0.0 and -0.0 are 0 in every format; infinities and NaN never become 0."""
    for dtype in FORMATS:
        hint = "the only question is whether the result is 0; every comparison with NaN is False"
        check_underflows(
            student,
            dtype,
            {0.0: True, math.inf: False, -math.inf: False, math.nan: False},
            hint=hint,
        )
        # -0.0 equals 0.0, so it would be the same key.
        check_underflows(student, dtype, {-0.0: True}, hint=hint)


def test_numbers_are_rounded_once(student):
    """The next float above half of the smallest subnormal does not become 0."""
    for dtype in NARROW:
        limit = float(half_of_the_smallest(dtype))
        hint = "a conversion through float32 rounds twice: first to the tie, then to 0"
        cases = {limit / 4: True, math.nextafter(limit, 1): False, limit * (1 + 2.0**-26): False}
        check_underflows(student, dtype, cases, hint=hint)


def test_the_answer_is_a_bool(student):
    """underflows_to_zero returns a bool."""
    got = student.run(probes.underflows, values=[0.5, 1e-12], dtype="float16")
    hint = "return a bool, not a tensor of one bool; .item() extracts it"
    expect.value(got, [False, True], of="underflows_to_zero", name="the answers", hint=hint)


def quantized(student, x, block_size, levels, *, kinds=INTEGERS):
    """Return the codes (as int64) and the scales, after checking types, sizes and ranges."""
    of = "quantize_blocks"
    got = student.precision.quantize_blocks(x, block_size, levels)
    expect.kind(got, (tuple, list), of=of, hint="return both codes and scales")
    expect.that(
        len(got) == 2,
        f"expected two tensors, the codes and the scales, got {len(got)} values",
        of=of,
    )
    codes, scales = got
    zeros = torch.zeros(math.ceil(len(x) / block_size))
    expect.tensor(
        scales,
        zeros,
        of=of,
        atol=math.inf,
        name="the scales",
        hint="one scale per block, including the short last block",
    )
    if not (isinstance(codes, torch.Tensor) and codes.dtype in kinds):
        expect.tensor(codes, torch.zeros(len(x), dtype=torch.uint8), of=of, name="the codes")
    like = torch.zeros(len(x), dtype=torch.float64)
    expect.tensor(
        codes.double(), like, of=of, atol=math.inf, name="the codes", hint="one code per number"
    )
    codes = codes.long()
    expect.that(
        bool(((codes >= 0) & (codes < len(levels))).all()),
        "a code is not an index into levels",
        of=of,
    )
    return codes, scales


def each(scales, block_size, n):
    """Return the scale of each element: that of its block."""
    return scales[torch.arange(n) // block_size]


def check_scales(scales, x, block_size, levels, *, hint):
    """Check that each scale is the block's absmax divided by the levels' absmax, up to rounding.

    Both maxima, the quotient and a reciprocal may be rounded to float32. Each of these four
    roundings has a relative error of at most eps32 / 2, so together they stay below 2 eps32. The
    check allows twice that.
    """
    largest = torch.stack([block.double().abs().max() for block in x.split(block_size)])
    expected = (largest / levels.double().abs().max()).float()
    expect.tensor(
        scales, expected, of="quantize_blocks", rtol=4 * EPS32, name="the scales", hint=hint
    )


def check_codes(codes, scales, x, block_size, levels, *, hint):
    """Check that no level is nearer to x than the code's level, up to rounding.

    x, the level, the scale, their quotient or product, a reciprocal and the distance may each be
    rounded to float32, and the scale may be off by 4 eps32: together 8 eps32 of the larger of |x|
    and scale · |level|. Two distances are compared, so the check allows twice that.
    """
    s = each(scales.double(), block_size, len(x))
    distances = (x.double()[:, None] - s[:, None] * levels.double()).abs()
    chosen = distances.gather(1, codes.long()[:, None])[:, 0]
    reach = x.double().abs() + s.abs() * levels.double().abs().max()
    best = distances.min(dim=1).values
    wrong = int((chosen > best + 16 * EPS32 * reach).sum())
    reason = f"{wrong} of {len(x)} codes name a level that is not the nearest to x / scale"
    expect.that(wrong == 0, reason, of="quantize_blocks", hint=hint)


def uneven_levels(rng, k):
    """Draw k sorted levels above -1, the last of which is 1: unevenly spaced but never nearly
    equal.
    """
    places = (torch.rand(k, generator=rng) + 0.2).cumsum(0)
    return places * (1.75 / places[-1]) - 0.75


def even_levels(k):
    """2k + 1 levels from -1 to 1, exact if k is a power of two.

    The largest |level| and the largest level are both 1, so a test that uses these levels does not
    judge how levels are scaled, sorted or spaced.
    """
    return torch.arange(-k, k + 1) / k


def numbers(rng, n, block_size):
    """Draw n numbers of very different sizes; the largest of each block is positive.

    Therefore only the test of signs depends on how signs are handled.
    """
    x = torch.randn(n, generator=rng) * torch.exp(2 * torch.randn(n, generator=rng))
    for block in x.split(block_size):
        block *= block[block.abs().argmax()].sign()
    return x


@pytest.mark.core
@pytest.mark.points(9)
def test_scales_are_absmax_over_absmax(student, rng):
    """Each block's scale is its largest |x| divided by the largest |level|, for any signs."""
    (block_size, blocks) = integers(rng, 4, 12, 2)
    for x_sign in (1.0, -1.0):
        for level_sign in (1.0, -1.0):
            x = x_sign * numbers(rng, blocks * block_size, block_size)
            levels = level_sign * torch.tensor([-0.5, 0.0, 0.25, uniform(rng, 2.0, 7.0)])
            _, scales = quantized(student, x, block_size, levels)
            hint = "use the largest absolute value of each block, and of the levels"
            check_scales(scales, x, block_size, levels, hint=hint)


# Stays: this test checks the rule itself. Code that gets the rule wrong for every order of levels
# also fails the next test.
@pytest.mark.core
@pytest.mark.points(10)
def test_codes_name_the_nearest_level(student, rng):
    """Each code is the index of the level nearest to x / scale, however the levels are spaced."""
    for k in (2, 3, 16, 77):
        block_size, levels = integers(rng, 3, 12, 1)[0], uneven_levels(rng, k)
        x = numbers(rng, block_size * 60, block_size)
        codes, scales = quantized(student, x, block_size, levels)
        check_codes(
            codes, scales, x, block_size, levels, hint="are distances compared in the same units?"
        )


# Stays: code that needs sorted levels may also break ties by the level, and a student should learn
# about the order first.
@pytest.mark.points(3)
def test_levels_come_in_any_order(student, rng):
    """Codes are right even if the levels are not sorted."""
    for k in (2, 8):
        levels = even_levels(k)[torch.randperm(2 * k + 1, generator=rng)]
        for given in (levels, levels.flip(0)):  # at least one of the two is unsorted
            x = numbers(rng, 60 * 7, 7)
            codes, scales = quantized(student, x, 7, given)
            check_codes(codes, scales, x, 7, given, hint="does the search assume sorted levels?")


@pytest.mark.points(3)
def test_ties_go_to_the_lower_index(student):
    """If two levels are equally near, or equal to each other, the code is the lower index."""
    # The largest |x| is a power of two and the largest |level| is 1, so nothing rounds and ties are
    # exact.
    x = (
        torch.tensor(
            [4.0, 3.5, -3.0, 2.5, -2.0, 1.5, -1.0, 0.5, 0.0, -0.5, 1.0, -1.5, 2.0, -2.5, 3.0, -3.5]
        )
        / 4
    )
    for quarters in (
        [-4, -3, -2, -1, 0, 1, 2, 3, 4],
        [4, 3, 2, 1, 0, -1, -2, -3, -4],
        [1, -4, 0, 3, -2, 4, -1, 2, -3],
        [-4, -4, 0, 0, 0, 4, 4],
    ):
        levels = torch.tensor(quarters) / 4
        nearest = [
            min((abs(value - level), i) for i, level in enumerate(levels.tolist()))[1]
            for value in x.tolist()
        ]
        for scale in (1.0, 0.25, 2.0**20):
            codes, _ = quantized(student, x * scale, len(x), levels)
            hint = "which of two equally near levels has the lower index?"
            expect.tensor(
                codes, torch.tensor(nearest), of="quantize_blocks", name="the codes", hint=hint
            )


def plain_example():
    """Return x (levels times a scale of 1), the block_size, the levels and the codes."""
    levels = even_levels(4)
    codes = torch.tensor([0, 4, 8, 8, 0, 4])
    return levels[codes], 3, levels, codes


def test_codes_are_uint8(student):
    """The codes are uint8: each takes one byte."""
    x, block_size, levels, expected = plain_example()
    codes, _ = quantized(student, x, block_size, levels, kinds=(torch.uint8,))
    expect.tensor(codes, expected, of="quantize_blocks", name="the codes")


@pytest.mark.points(4)
def test_the_last_block_may_be_short(student, rng):
    """Leftover elements form a short last block with its own scale."""
    levels = even_levels(4)
    for n, block_size in [(23, 5), (16, 5), (14, 5), (3, 8), (1, 64), (9, 1)]:
        x = numbers(rng, n, block_size)
        codes, scales = quantized(student, x, block_size, levels)
        hint = "the last block has n % block_size elements if that is not 0, and its own scale"
        check_scales(scales, x, block_size, levels, hint=hint)
        check_codes(codes, scales, x, block_size, levels, hint=hint)


@pytest.mark.points(3)
def test_blocks_of_zeros(student, rng):
    """A block of zeros has scale 0, contains no NaN, and does not affect its neighbours."""
    for levels in (even_levels(2), even_levels(1)[::2], torch.tensor([0.25, 1.0])):
        x = numbers(rng, 24, 4)
        x[8:16] = 0.0
        x[20:] = 0.0
        codes, scales = quantized(student, x, 4, levels)
        hint = "what is 0 / 0, and what is the scale of a block of zeros?"
        check_scales(scales, x, 4, levels, hint=hint)
        check_codes(codes, scales, x, 4, levels, hint=hint)


@pytest.mark.points(3)
def test_blocks_of_every_magnitude(student, rng):
    """Numbers from 1e-8 (gradients) to 1e4 (activations) are quantized equally well."""
    levels = even_levels(4)
    x = numbers(rng, 240, 6)
    for i, block in enumerate(x.split(6)):
        block *= MAGNITUDES[i % 4]
    codes, scales = quantized(student, x, 6, levels)
    hint = "are scales clamped from below or above, or stored in a format with too small a range?"
    check_scales(scales, x, 6, levels, hint=hint)
    check_codes(codes, scales, x, 6, levels, hint=hint)


@pytest.mark.points(3)
def test_quantize_takes_every_dtype(student, rng):
    """Numbers and levels of any dtype give float32 scales, computed in float32 or wider."""
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        levels = even_levels(16) * 0.75
        x = numbers(rng, 300, 6).clamp(-30, 30).to(dtype)
        for given in (levels, levels.to(dtype)):
            codes, scales = quantized(student, x, 6, given)
            hint = (
                "is anything computed in less than float32? A 0-dimensional tensor does not "
                "promote another tensor's dtype"
            )
            check_scales(scales, x, 6, given, hint=hint)
            check_codes(codes, scales, x, 6, given, hint=hint)


@pytest.mark.points(2)
def test_codes_reach_256_levels(student, rng):
    """There may be up to 256 levels, and a code can be the index of any of them."""
    levels = torch.arange(-127, 129) / 128
    x = levels[torch.randperm(256, generator=rng)]
    codes, scales = quantized(student, x, 256, levels)
    check_codes(codes, scales, x, 256, levels, hint="codes are 0 … 255: unsigned")


@pytest.mark.points(2)
def test_x_need_not_be_contiguous(student, rng):
    """x may be non-contiguous: a column of a matrix, or every other element of a vector."""
    levels = even_levels(4)
    hint = "how far apart in the storage are neighbouring elements of x?"
    for step, offset in [(3, 1), (2, 0)]:
        x = torch.randn(24 * step, generator=rng)[offset::step]
        x.copy_(numbers(rng, 24, 6))
        codes, scales = quantized(student, x, 6, levels)
        check_scales(scales, x, 6, levels, hint=hint)
        check_codes(codes, scales, x, 6, levels, hint=hint)


def random_codes(rng, n, block_size, k):
    """Random codes below k, and a scale for each block."""
    codes = torch.randint(0, k, (n,), generator=rng).to(torch.uint8)
    return codes, torch.rand(math.ceil(n / block_size), generator=rng) * 9 + 0.1


def check_dequantized(student, codes, scales, block_size, levels, *, hint):
    """Check dequantize_blocks up to rounding.

    A level, its product with the scale and the expected value are each rounded to float32. Together
    these errors are below 2 eps32.
    """
    expected = each(scales.double(), block_size, len(codes)) * levels.double()[codes.long()]
    got = student.precision.dequantize_blocks(codes, scales, block_size, levels)
    expect.tensor(got, expected.float(), of="dequantize_blocks", rtol=2 * EPS32, hint=hint)


@pytest.mark.core
@pytest.mark.points(10)
def test_dequantize_multiplies_scale_and_level(student, rng):
    """x[i] is scales[i // block_size] · levels[codes[i]], for any number of blocks."""
    for n, block_size, k in [
        (24, 4, 9),
        (24, 8, 24),
        (20, 1, 16),
        (15, 15, 4),
        (1500, 3, 200),
        (36, 6, 6),
    ]:
        codes, scales = random_codes(rng, n, block_size, k)
        levels = 3 * uneven_levels(rng, k)[torch.randperm(k, generator=rng)]
        hint = (
            "convert uint8 codes to an integer index (torch takes uint8 for a mask); each "
            "scale belongs to block_size neighbours"
        )
        check_dequantized(student, codes, scales, block_size, levels, hint=hint)


@pytest.mark.points(3)
def test_dequantize_a_short_last_block(student, rng):
    """The last block, or the only one, may be shorter than block_size."""
    for n, block_size in [(23, 5), (16, 5), (14, 5), (3, 8)]:
        codes, scales = random_codes(rng, n, block_size, 9)
        check_dequantized(
            student,
            codes,
            scales,
            block_size,
            even_levels(4),
            hint="return as many numbers as there are codes",
        )


@pytest.mark.points(2)
def test_dequantize_gives_float32(student, rng):
    """The result is float32 for levels of every dtype."""
    for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.float32):
        codes, scales = random_codes(rng, 40, 8, 9)
        levels = even_levels(4).to(dtype)
        check_dequantized(
            student,
            codes,
            scales,
            8,
            levels,
            hint="multiply in float32: the scales are float32, but the levels may not be",
        )


@pytest.mark.points(2)
def test_dequantize_takes_scales_of_every_magnitude(student, rng):
    """Scales from 1e-8 to 1e4 keep all their digits, and a scale of 0 gives zeros for any code."""
    codes, scales = random_codes(rng, 60, 3, 9)
    for i, magnitude in enumerate((0.0, *MAGNITUDES)):
        scales[i::5] *= magnitude
    hint = "is a scale or a product rounded, or clamped away from 0? 0 times any level is 0"
    check_dequantized(student, codes, scales, 3, even_levels(4), hint=hint)


def test_more_than_256_levels_are_refused(student, rng):
    """257 levels raise a ValueError, because a uint8 code has only 256 values."""
    x, block_size, levels, expected = plain_example()
    with expect.right_call("9 levels"):
        codes, _ = quantized(student, x, block_size, levels)
        expect.tensor(codes, expected, of="quantize_blocks", name="the codes")
    when = "levels has 257 entries"
    with expect.raises((ValueError, RuntimeError, OverflowError), of="quantize_blocks", when=when):
        student.precision.quantize_blocks(numbers(rng, 6, 3), 3, even_levels(128))


def test_scales_that_do_not_fit_are_refused(student):
    """Too few or too many scales for the codes and block_size raise a ValueError."""
    levels, codes = (
        even_levels(2),
        torch.tensor([0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 4], dtype=torch.uint8),
    )
    with expect.right_call("12 codes, 3 scales, block_size 4"):
        check_dequantized(student, codes, torch.ones(3), 4, levels, hint=None)
    for count in (1, 2, 4, 12):
        with expect.raises(
            (ValueError, RuntimeError, IndexError),
            of="dequantize_blocks",
            when="scales is not one per block",
        ):
            student.precision.dequantize_blocks(codes, torch.ones(count), 4, levels)


def kept_inputs(student, function, args):
    """Check that a call did not change its inputs, and return its result with them."""
    given = tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args)
    got = student.run(call_and_keep_inputs, module="precision", function=function, args=given)
    for after, before in zip(got["inputs"], args, strict=True):
        if isinstance(before, torch.Tensor):
            expect.tensor(
                after,
                before,
                of=function,
                name="an input after the call",
                hint="is an input changed in place?",
            )
    return got


@pytest.mark.points(2)
def test_inputs_are_left_as_they_were(student, rng):
    """quantize_blocks and dequantize_blocks do not change their inputs."""
    x, block_size, levels, codes = plain_example()
    got = kept_inputs(student, "quantize_blocks", [3 * x, block_size, levels])
    expect.kind(got["result"], (tuple, list), of="quantize_blocks")
    expect.kind(
        got["result"][0] if got["result"] else None,
        torch.Tensor,
        of="quantize_blocks",
        name="the codes",
    )
    expect.tensor(got["result"][0].long(), codes, of="quantize_blocks", name="the codes")
    scales = torch.rand(2, generator=rng) + 0.5
    got = kept_inputs(
        student, "dequantize_blocks", [codes.to(torch.uint8), scales, block_size, 3 * levels]
    )
    right = each(scales, block_size, len(codes)) * 3 * levels[codes]
    expect.tensor(got["result"], right, of="dequantize_blocks", rtol=2 * EPS32)
