"""precision: the numbers of a format, the numbers that it rounds to 0, and block quantization.

The oracles are torch.finfo, the formats' closed forms in exact fractions, and distances in float64.
If rounding can decide which of two levels is nearer, or what a scale is, every answer within the
rounding errors of float32 is right. Exact ties are tested only where scales, levels and midpoints
are small integers times powers of two, so that nothing rounds. A code is judged together with its
own scale, and dequantize_blocks gets codes and scales made by the test, so that each mistake costs
points once. A whole number may be an int or a float, and codes may have any integer dtype, except
in the tests that ask for a type.
"""

import math
from fractions import Fraction

import pytest
import torch

from kit import expect
from kit.student import call_each
from tests.hidden import answer_that_keeps, integers
from tests.probes import precision as probes

# dtype: (exponent bits, mantissa bits), as in the names of the fp8 formats
FORMATS = {
    "float64": (11, 52), "float32": (8, 23), "float16": (5, 10), "bfloat16": (8, 7),
    "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2),
}  # fmt: skip
# The dtypes whose smallest subnormal can be halved as a Python float.
NARROW = [dtype for dtype in FORMATS if dtype != "float64"]
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
EPS32 = torch.finfo(torch.float32).eps
MAGNITUDES = (1e-8, 1e-4, 1.0, 1e4)  # of gradients, weights and activations in training


def uniform(rng, low, high):
    return low + (high - low) * torch.rand((), generator=rng, dtype=torch.float64).item()


# --- float_spec


def check_fields(student, fields, expected_of, *, hint, dtypes=tuple(FORMATS)):
    """Check fields of float_spec, as floats or ints, against a function of the dtype's name."""
    for dtype, got in zip(dtypes, student.run(probes.specs, dtypes=list(dtypes)), strict=True):
        for field, expected in zip(fields, expected_of(dtype), strict=True):
            name = f"{field} of {dtype}"
            expect.kind(got[field], (float, int), of="float_spec", name=name, hint=hint)
            near = {"tolerance": 1e-12 * expected, "name": name, "hint": hint}
            expect.number(got[field], expected, of="float_spec", **near)


def limits(*fields):
    return lambda dtype: [getattr(torch.finfo(getattr(torch, dtype)), field) for field in fields]


def half_of_the_smallest(dtype):
    """Half of the smallest subnormal, 2^(-bias - mantissa bits), as an exact fraction."""
    exponent_bits, mantissa_bits = FORMATS[dtype]
    return Fraction(2) ** -(2 ** (exponent_bits - 1) - 1 + mantissa_bits)


def smallest_subnormal(dtype):
    return [float(2 * half_of_the_smallest(dtype))]


def bits(dtype):
    return 1 + sum(FORMATS[dtype]), *FORMATS[dtype]


@pytest.mark.harm("wrong number")
def test_bits_of_every_format(student):
    """bits is the sum of one sign bit, the exponent bits and the stored mantissa bits."""
    hint = "the sign takes one bit, and the leading 1 of a normal number is not stored"
    check_fields(student, ("bits", "exponent_bits", "mantissa_bits"), bits, hint=hint)


@pytest.mark.harm("wrong number")
def test_largest_number(student):
    """In formats with infinities the largest finite number is 2^bias · (2 - 2^-mantissa_bits)."""
    hint = (
        "the largest exponent field is reserved for infinity and NaN; below it, the "
        "largest number has all mantissa bits 1"
    )
    dtypes = [dtype for dtype in FORMATS if dtype != "float8_e4m3fn"]
    check_fields(student, ["max"], limits("max"), hint=hint, dtypes=dtypes)


@pytest.mark.harm("wrong number")
def test_largest_number_without_infinity(student):
    """float8_e4m3fn has no infinity: its largest exponent holds numbers too, up to 448."""
    hint = (
        "at the largest exponent only the mantissa 111 is reserved, for NaN: what is the "
        "largest number then?"
    )
    check_fields(student, ["max"], limits("max"), hint=hint, dtypes=["float8_e4m3fn"])


@pytest.mark.harm("wrong number")
def test_smallest_normal_number(student):
    """The smallest normal number is 2^(1 - bias)."""
    hint = "exponent field 0 is reserved for subnormal numbers and 0"
    check_fields(student, ["smallest_normal"], limits("smallest_normal"), hint=hint)


@pytest.mark.harm("wrong number")
def test_smallest_subnormal_number(student):
    """The smallest subnormal number is 2^(1 - bias - mantissa_bits), in float64 as well."""
    hint = (
        "subnormal numbers divide the interval from 0 to the smallest normal number into "
        "2^mantissa_bits steps"
    )
    check_fields(student, ["smallest_subnormal"], smallest_subnormal, hint=hint)


@pytest.mark.harm("wrong number")
def test_eps_is_the_gap_after_one(student):
    """eps is the distance from 1 to the next larger number, not half of it."""
    hint = "which number comes after 1, and how far away is it?"
    check_fields(student, ["eps"], limits("eps"), hint=hint)


@pytest.mark.harm("crash")
def test_bit_counts_and_answers_have_their_types(student):
    """bits, exponent_bits and mantissa_bits are ints, and underflows_to_zero returns a bool."""
    found = student.run(probes.specs, dtypes=list(FORMATS))
    expect.parts(found, len(FORMATS), of="float_spec")
    hint = "a count is an int; math.log2 gives a float"
    for field in ("bits", "exponent_bits", "mantissa_bits"):
        for got in found:
            expect.kind(got[field], int, of="float_spec", name=field, hint=hint)
    more = found[1]["bits"] > found[3]["bits"]
    expect.that(more, "float32 does not have more bits than bfloat16", of="float_spec")
    got = student.run(probes.underflows, values=[0.5, 1e-12], dtype="float16")
    hint = "return a bool, not a tensor of one bool; .item() extracts it"
    expect.value(got, [False, True], of="underflows_to_zero", name="the answers", hint=hint)


# --- underflows_to_zero


def check_underflows(student, dtype, cases, *, hint):
    """Check underflows_to_zero for each value; the answer may be a bool or a tensor of one bool."""
    got = student.run(probes.underflows, values=list(cases), dtype=dtype)
    for answer, (value, expected) in zip(got, cases.items(), strict=True):
        if isinstance(answer, torch.Tensor) and answer.dtype == torch.bool and answer.numel() == 1:
            answer = bool(answer) if answer.device.type == "cpu" else answer
        name, inputs = f"the answer for {dtype}", f"{value!r}, {dtype}"
        expect.value(answer, expected, of="underflows_to_zero", name=name, inputs=inputs, hint=hint)


@pytest.mark.harm("wrong number")
def test_small_numbers_become_zero(student, rng):
    """A number becomes 0 if its absolute value is below half of the smallest subnormal."""
    hint = "a number between 0 and the smallest subnormal rounds to the nearer of the two"
    parts = [Fraction(*part) for part in ((1, 1000), (1, 2), (9, 10), (11, 10), (2, 1), (3, 1))]
    for dtype, (_, mantissa_bits) in FORMATS.items():
        limit = half_of_the_smallest(dtype)
        factors = [*parts, Fraction(2**mantissa_bits), 1 / limit]
        values = [float(limit * factor * Fraction(uniform(rng, 1.0, 1.05))) for factor in factors]
        # Some are too small for float64.
        cases = {value: value < limit for value in values if value}
        check_underflows(student, dtype, cases, hint=hint)
        negative = {-value: is_zero for value, is_zero in cases.items()}
        check_underflows(student, dtype, negative, hint="compare the absolute value")


@pytest.mark.harm("rare")
def test_a_tie_becomes_zero(student):
    """Exactly half of the smallest subnormal becomes 0, because 0 is even."""
    hint = "a tie goes to the number whose mantissa is even"
    for dtype in NARROW:
        half = float(half_of_the_smallest(dtype))
        check_underflows(student, dtype, {1.0: False, half: True, -half: True}, hint=hint)


# --- quantize_blocks


def quantized(student, x, block_size, levels, *, kinds=INTEGERS, hint=None):
    """Return the codes (as int64) and the scales, after checking types, sizes and ranges."""
    got = student.precision.quantize_blocks(x, block_size, levels)
    of = "quantize_blocks"
    expect.kind(got, (tuple, list), of=of, hint="return both codes and scales")
    reason = f"expected two tensors, the codes and the scales, got {len(got)} values"
    expect.that(len(got) == 2, reason, of=of)
    codes, scales = got
    zeros = torch.zeros(math.ceil(len(x) / block_size))
    expect.tensor(scales, zeros, of=of, atol=math.inf, name="the scales", hint=hint)
    if not (isinstance(codes, torch.Tensor) and codes.dtype in kinds):
        expect.tensor(codes, torch.zeros(len(x), dtype=torch.uint8), of=of, name="the codes")
    like = torch.zeros(len(x), dtype=torch.float64)
    expect.tensor(codes.double(), like, of=of, atol=math.inf, name="the codes", hint=hint)
    codes = codes.long()
    inside = bool(((codes >= 0) & (codes < len(levels))).all())
    expect.that(inside, "a code is not an index into levels", of=of)
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
    name = "the scales"
    expect.tensor(scales, expected, of="quantize_blocks", rtol=4 * EPS32, name=name, hint=hint)


def check_codes(codes, scales, x, block_size, levels, *, hint):
    """Check that no level is nearer to x than the code's level, up to rounding.

    x, the level, the scale, their quotient or product, a reciprocal and the distance may each be
    rounded to float32, and the scale may be off by 4 eps32: together 8 eps32 of the larger of |x|
    and scale · |level|. Two distances are compared, so the check allows twice that.
    """
    s = each(scales.double(), block_size, len(x))
    # With a scale of 0, every code would be as near as any other.
    usable = bool((s[x != 0] > 0).all() and s.isfinite().all())
    reason = "a block that is not all 0 has a scale above 0"
    expect.that(usable, reason, of="quantize_blocks", hint=hint)
    distances = (x.double()[:, None] - s[:, None] * levels.double()).abs()
    chosen = distances.gather(1, codes.long()[:, None])[:, 0]
    reach = x.double().abs() + s.abs() * levels.double().abs().max()
    best = distances.min(dim=1).values
    wrong = int((chosen > best + 16 * EPS32 * reach).sum())
    reason = f"{wrong} of {len(x)} codes name a level that is not the nearest to x / scale"
    expect.that(wrong == 0, reason, of="quantize_blocks", hint=hint)


def check_both(student, x, block_size, levels, *, hint):
    codes, scales = quantized(student, x, block_size, levels, hint=hint)
    check_scales(scales, x, block_size, levels, hint=hint)
    check_codes(codes, scales, x, block_size, levels, hint=hint)


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


@pytest.mark.harm("wrong number")
def test_scales_are_absmax_over_absmax(student, rng):
    """Each block's scale is its largest |x| divided by the largest |level|, for any signs."""
    (block_size, blocks) = integers(rng, 4, 12, 2)
    hint = "use the largest absolute value of each block, and of the levels"
    for x_sign in (1.0, -1.0):
        for level_sign in (1.0, -1.0):
            x = x_sign * numbers(rng, blocks * block_size, block_size)
            levels = level_sign * torch.tensor([-0.5, 0.0, 0.25, uniform(rng, 2.0, 7.0)])
            _, scales = quantized(student, x, block_size, levels)
            check_scales(scales, x, block_size, levels, hint=hint)


# Stays: it is the rule itself; the test of ties, also with unsorted levels, is worth little.
@pytest.mark.harm("wrong number")
def test_codes_name_the_nearest_level(student, rng):
    """Each code is the index of the level nearest to x / scale, in whatever order levels come."""
    hint = "are distances compared in the same units?"
    for k in (2, 3, 16, 77):
        block_size, levels = integers(rng, 3, 12, 1)[0], uneven_levels(rng, k)
        x = numbers(rng, block_size * 60, block_size).repeat_interleave(2)[::2]  # not contiguous
        codes, scales = quantized(student, x, block_size, levels)
        check_codes(codes, scales, x, block_size, levels, hint=hint)
    levels = even_levels(8)[torch.randperm(17, generator=rng)]
    for given in (levels, levels.flip(0)):  # at least one of the two is unsorted
        x = numbers(rng, 60 * 7, 7)
        codes, scales = quantized(student, x, 7, given)
        check_codes(codes, scales, x, 7, given, hint="does the search assume sorted levels?")


@pytest.mark.harm("rare")
def test_ties_go_to_the_lower_index(student):
    """If two levels are equally near, the code is the lower index."""
    # The largest |x| is 4 and the largest |level| is 4, so nothing rounds and ties are exact.
    x = torch.tensor([4.0, 3.5, -3.0, 2.5, -2.0, 1.5, 0.5, 0.0, -0.5, 1.0, -1.5, 2.0, -2.5, -3.5])
    hint = "which of two equally near levels has the lower index?"
    for listed in (
        [-4, -3, -2, -1, 0, 1, 2, 3, 4],
        [4, 3, 2, 1, 0, -1, -2, -3, -4],
        [1, -4, 0, 3, -2, 4, -1, 2, -3],
    ):
        levels = torch.tensor(listed, dtype=torch.float32)
        codes, _ = quantized(student, x, len(x), levels)
        want = (x[:, None] - levels).abs().argmin(dim=1)  # the first of equal distances
        expect.tensor(codes, want, of="quantize_blocks", name="the codes", hint=hint)


def plain_example():
    """Return x (levels times a scale of 1), the block_size, the levels and the codes."""
    levels = even_levels(4)
    codes = torch.tensor([0, 4, 8, 8, 0, 4])
    return levels[codes], 3, levels, codes


@pytest.mark.harm("crash")
def test_codes_are_uint8(student, rng):
    """The codes are uint8: each takes one byte."""
    x, block_size, levels, expected = plain_example()
    codes, _ = quantized(student, x, block_size, levels, kinds=(torch.uint8,))
    expect.tensor(codes, expected, of="quantize_blocks", name="the codes")


# Stays: it has all 256 codes; other tests meet a code above 127 with unusual levels only.
@pytest.mark.harm("wrong number")
def test_codes_reach_256_levels(student, rng):
    """There may be 256 levels, and a code can be the index of any of them."""
    levels = torch.arange(-127, 129) / 128
    x = levels[torch.randperm(256, generator=rng)]
    codes, scales = quantized(student, x, 256, levels)
    check_codes(codes, scales, x, 256, levels, hint="codes are 0 … 255: unsigned")


@pytest.mark.harm("wrong number")
def test_the_last_block_may_be_short(student, rng):
    """Leftover elements form a short last block with its own scale."""
    levels = even_levels(4)
    hint = "the last block has n % block_size elements if that is not 0, and its own scale"
    for n, block_size in [(23, 5), (16, 5), (14, 5), (3, 8), (9, 1)]:
        check_both(student, numbers(rng, n, block_size), block_size, levels, hint=hint)


# Stays: 0 / 0 is the common mistake; other tests meet its neighbours only.
@pytest.mark.harm("wrong number")
def test_blocks_of_zeros(student, rng):
    """A block of zeros has scale 0, contains no NaN, and does not affect its neighbours."""
    hint = "what is 0 / 0, and what is the scale of a block of zeros?"
    x = numbers(rng, 24, 4)
    x[8:16] = 0.0
    x[20:] = 0.0
    for levels in (even_levels(2), torch.tensor([0.25, 1.0])):
        check_both(student, x, 4, levels, hint=hint)


# Stays: its numbers are very small and very large; those of the next test are ordinary.
@pytest.mark.harm("wrong number")
def test_blocks_of_every_magnitude(student, rng):
    """Very small and very large numbers are quantized equally well."""
    x = numbers(rng, 240, 6).clamp(-30, 30)
    for i, block in enumerate(x.split(6)):
        block *= MAGNITUDES[i % 4]
    hint = "is anything clamped, or computed or stored in a format with too small a range?"
    check_both(student, x, 6, even_levels(4), hint=hint)
    check_both(student, (x[:6] * 1e-3).half(), 6, even_levels(4), hint=hint)
    tiny = (1 + torch.rand(60, generator=rng) / 4) * 1e-6  # so the scales are below 1e-8
    check_both(student, tiny, 6, 127 * even_levels(127), hint=hint)


@pytest.mark.harm("wrong number")
def test_quantize_takes_every_dtype(student, rng):
    """Numbers and levels of any dtype give float32 scales, computed in float32 or wider."""
    hint = (
        "is anything computed in less than float32? A 0-dimensional tensor does not "
        "promote another tensor's dtype"
    )
    levels, wide = even_levels(16) * 0.7, numbers(rng, 300, 6).clamp(-30, 30)
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        narrow = levels.to(dtype)
        dense = torch.rand(300, generator=rng).to(dtype), even_levels(127)
        for x, given in [(wide.to(dtype), levels), (wide.to(dtype), narrow), (wide, narrow), dense]:
            check_both(student, x, 6, given, hint=hint)


# --- dequantize_blocks


def check_dequantized(student, cases, *, hint):
    """Check calls of dequantize_blocks up to rounding.

    A level, its product with the scale and the expected value are each rounded to float32. Together
    these errors are below 2 eps32.
    """
    of = "dequantize_blocks"
    results = student.run(call_each, module="precision", function=of, calls=cases)
    expect.parts(results, len(cases), of=of)
    for got, (codes, scales, block_size, levels) in zip(results, cases, strict=True):
        expected = each(scales.double(), block_size, len(codes)) * levels.double()[codes.long()]
        expect.tensor(got, expected.float(), of=of, rtol=2 * EPS32, hint=hint)


def random_codes(rng, n, block_size, k):
    """Random codes below k, and a scale for each block, of every magnitude and 0."""
    codes = torch.randint(0, k, (n,), generator=rng).to(torch.uint8)
    scales = torch.rand(math.ceil(n / block_size), generator=rng) * 9 + 0.1
    for i, magnitude in enumerate((0.0, *MAGNITUDES)):
        scales[i + 1 :: 6] *= magnitude
    return codes, scales


@pytest.mark.harm("wrong number")
def test_dequantize_multiplies_scale_and_level(student, rng):
    """x[i] is scales[i // block_size] · levels[codes[i]]; the last block may be short."""
    cases = []
    for n, block_size, k in [(24, 4, 9), (20, 1, 16), (15, 15, 4), (1500, 3, 200), (30, 3, 256)]:
        codes, scales = random_codes(rng, n, block_size, k)
        codes[0] = k - 1
        levels = 3 * uneven_levels(rng, k)[torch.randperm(k, generator=rng)]
        cases.append((codes, scales, block_size, levels))
    hint = (
        "convert uint8 codes to an integer index (torch takes uint8 for a mask); each "
        "scale belongs to block_size neighbours"
    )
    check_dequantized(student, cases, hint=hint)
    sizes = [(23, 5), (16, 5), (14, 5), (3, 8)]
    cases = [(*random_codes(rng, n, size, 9), size, even_levels(4)) for n, size in sizes]
    check_dequantized(student, cases, hint="return as many numbers as there are codes")


@pytest.mark.harm("wrong number")
def test_dequantize_gives_float32(student, rng):
    """The result is float32 for levels of every dtype."""
    cases = []
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        cases.append((*random_codes(rng, 40, 8, 9), 8, (even_levels(4) * 0.7).to(dtype)))
    hint = "multiply in float32: the scales are float32, but the levels may not be"
    check_dequantized(student, cases, hint=hint)


@pytest.mark.harm("not refused")
def test_inputs_are_left_as_they_were(student, rng):
    """quantize_blocks and dequantize_blocks do not change their inputs."""
    x, block_size, levels, codes = plain_example()
    scales = torch.rand(2, generator=rng) + 0.5
    for function, args in [
        ("quantize_blocks", (3 * x, block_size, levels)),
        ("quantize_blocks", (3 * x.double(), block_size, levels.double())),
        ("dequantize_blocks", (codes.byte(), scales, block_size, 3 * levels)),
    ]:
        hint = "is an input changed in place?"
        got = answer_that_keeps(student, "precision", function, args, hint=hint)
        if function == "dequantize_blocks":
            right = each(scales, block_size, len(codes)) * 3 * levels[codes]
            expect.tensor(got["result"], right, of=function, rtol=2 * EPS32)
        else:
            expect.kind(got["result"], (tuple, list), of=function)
            expect.parts(got["result"], 2, of=function)
            found = got["result"][0]
            expect.kind(found, torch.Tensor, of=function, name="the codes")
            expect.tensor(found.long(), codes, of=function, name="the codes")
