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
import sys
from fractions import Fraction

import pytest
import torch

from kit import expect
from kit.student import call_and_keep_inputs, call_each
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
# Near the ends of the range of each dtype that float32 has as well.
EXTREMES = {
    torch.float16: (2.0**-20, 6e4),
    torch.bfloat16: (1e-25, 1e25),
    torch.float32: (1e-25, 1e25),
    torch.float64: (1e-25, 1e25),
}


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
    found = dict(specs(student))
    hint = "a count is an int; math.log2 gives a float"
    for field in ("bits", "exponent_bits", "mantissa_bits"):
        for got in found.values():
            expect.kind(got[field], int, of="float_spec", name=field, hint=hint)
    expect.that(
        found["float32"]["bits"] > found["bfloat16"]["bits"],
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
        values += [500.0, 1e20, 1e300, sys.float_info.max]
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
        cases |= {-float(limit): True, -1e300: False}
        check_underflows(student, dtype, cases, hint="compare the absolute value")
    cases = {-math.ulp(0.0): False, -1e-300: False, -1e300: False}
    check_underflows(student, "float64", cases, hint="compare the absolute value")


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
        above = math.nextafter(limit, 1)
        cases = {limit / 4: True, above: False, -above: False, limit * (1 + 2.0**-26): False}
        check_underflows(student, dtype, cases, hint=hint)


def test_the_answer_is_a_bool(student):
    """underflows_to_zero returns a bool."""
    got = student.run(probes.underflows, values=[0.5, 1e-12], dtype="float16")
    hint = "return a bool, not a tensor of one bool; .item() extracts it"
    expect.value(got, [False, True], of="underflows_to_zero", name="the answers", hint=hint)


def quantized(student, x, block_size, levels, *, kinds=INTEGERS):
    """Return the codes (as int64) and the scales, after checking types, sizes and ranges."""
    got = student.precision.quantize_blocks(x, block_size, levels)
    return checked(got, x, block_size, levels, kinds=kinds)


def answers(student, function, calls):
    """Call the student's function with each of these arguments, one after the other."""
    results = student.run(call_each, module="precision", function=function, calls=calls)
    expect.parts(results, len(calls), of=function)
    return results


def quantized_each(student, cases):
    """The codes and scales of each of these calls, as `quantized` returns them."""
    results = answers(student, "quantize_blocks", cases)
    return [checked(got, *case) for got, case in zip(results, cases, strict=True)]


def checked(got, x, block_size, levels, *, kinds=INTEGERS):
    """Check types, sizes and ranges of codes and scales; return the codes as int64."""
    of = "quantize_blocks"
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


def codes_of(got):
    """The codes of a result, as int64; other tests judge its scales."""
    expect.kind(got, (tuple, list), of="quantize_blocks")
    first = got[0] if got else None
    expect.kind(first, torch.Tensor, of="quantize_blocks", name="the codes")
    return first.long()


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
            hint = "use the largest absolute value of each block, and of the levels"
            for given in (levels, levels[3:]):
                _, scales = quantized(student, x, block_size, given)
                check_scales(scales, x, block_size, given, hint=hint)


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
    levels, signs = even_levels(4)[5:], torch.tensor([1.0, -1.0]).repeat(30)  # all above 0
    x = numbers(rng, 60, 6).abs() * signs
    for given in (levels, -levels):
        codes, scales = quantized(student, x, 6, given)
        hint = "which level is nearest to a number of the other sign?"
        check_codes(codes, scales, x, 6, given, hint=hint)


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
        hint = "which of two equally near levels has the lower index?"
        cases = [(x * scale, len(x), levels) for scale in (1.0, 0.25, 2.0**20)]
        # Two blocks, the last of which is short.
        two, right = torch.cat([x, 2 * x[:5]]), torch.tensor(nearest + nearest[:5])
        dtypes = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        of_two = [(two.to(dtype), len(x), levels.to(dtype)) for dtype in dtypes]
        results = answers(student, "quantize_blocks", cases + of_two)
        found = [checked(got, *case)[0] for got, case in zip(results, cases, strict=False)]
        found += map(codes_of, results[len(cases) :])
        for i, codes in enumerate(found):
            want = torch.tensor(nearest) if i < len(cases) else right
            expect.tensor(codes, want, of="quantize_blocks", name="the codes", hint=hint)


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
    quantized(student, x[:0], block_size, levels, kinds=(torch.uint8,))


@pytest.mark.points(4)
def test_the_last_block_may_be_short(student, rng):
    """Leftover elements form a short last block with its own scale."""
    levels = even_levels(4)
    sizes = [(23, 5), (16, 5), (14, 5), (3, 8), (1, 64), (9, 1), (2600, 2000)]
    cases = [(numbers(rng, n, block_size), block_size, levels) for n, block_size in sizes]
    for case, (codes, scales) in zip(cases, quantized_each(student, cases), strict=True):
        hint = "the last block has n % block_size elements if that is not 0, and its own scale"
        check_scales(scales, *case, hint=hint)
        check_codes(codes, scales, *case, hint=hint)


@pytest.mark.points(3)
def test_blocks_of_zeros(student, rng):
    """A block of zeros has scale 0, contains no NaN, and does not affect its neighbours."""
    for levels in (even_levels(2), even_levels(1)[::2], torch.tensor([0.25, 1.0])):
        codes, scales = quantized(student, torch.zeros(7), 4, levels)
        hint = "what is 0 / 0, and what is the scale of a block of zeros?"
        check_scales(scales, torch.zeros(7), 4, levels, hint=hint)
        x = numbers(rng, 24, 4)
        x[8:16] = 0.0
        x[20:] = 0.0
        codes, scales = quantized(student, x, 4, levels)
        check_scales(scales, x, 4, levels, hint=hint)
        check_codes(codes, scales, x, 4, levels, hint=hint)


# Stays: its numbers are very small and very large; those of the next test are ordinary.
@pytest.mark.points(3)
def test_blocks_of_every_magnitude(student, rng):
    """Very small and very large numbers are quantized equally well, in every dtype."""
    levels = even_levels(4)
    x = numbers(rng, 240, 6)
    for i, block in enumerate(x.split(6)):
        block *= MAGNITUDES[i % 4]
    cases = [(x, levels)]
    for dtype, extremes in EXTREMES.items():
        for magnitude in extremes:
            x = magnitude * 0.45 * (torch.rand(30, generator=rng) + 0.1)
            x[1::3] *= -1
            x[::6] = 0.6 * magnitude
            # Small and large enough for the levels; every quotient fits into float32.
            factors = (1.0, 2.0**-20, 6e4)
            some = factors if dtype == torch.float16 else [factors[len(cases) % 3]]
            cases += [(x.to(dtype), (levels * factor).to(dtype)) for factor in some]
            if dtype != torch.float16:  # near the smallest and the largest normal number
                cases.append(((x * magnitude**0.44).to(dtype), levels.to(dtype)))
                # So small or large that the square of a difference leaves the range of float32.
                cases.append((x.to(dtype), (levels * magnitude).to(dtype)))
    hint = "is anything clamped, or computed or stored in a format with too small a range?"
    cases = [(x, 6, given) for x, given in cases]
    for case, (codes, scales) in zip(cases, quantized_each(student, cases), strict=True):
        check_scales(scales, *case, hint=hint)
        check_codes(codes, scales, *case, hint=hint)


# Stays: see above.
@pytest.mark.points(3)
def test_quantize_takes_every_dtype(student, rng):
    """Numbers and levels of any dtype give float32 scales, computed in float32 or wider."""
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        levels = even_levels(16) * 0.7
        wide = numbers(rng, 300, 6).clamp(-30, 30)
        narrow = levels.to(dtype)
        for x, given in [(wide.to(dtype), levels), (wide.to(dtype), narrow), (wide, narrow)]:
            codes, scales = quantized(student, x, 6, given)
            hint = (
                "is anything computed in less than float32? A 0-dimensional tensor does not "
                "promote another tensor's dtype"
            )
            check_scales(scales, x, 6, given, hint=hint)
            check_codes(codes, scales, x, 6, given, hint=hint)


@pytest.mark.points(2)
def test_codes_reach_256_levels(student, rng):
    """There may be 1 to 256 levels, and a code can be the index of any of them."""
    levels = torch.arange(-127, 129) / 128
    x = levels[torch.randperm(256, generator=rng)]
    codes, scales = quantized(student, x, 256, levels)
    check_codes(codes, scales, x, 256, levels, hint="codes are 0 … 255: unsigned")
    codes, _ = quantized(student, x, 256, torch.tensor([0.5]))
    hint = "the only level has the index 0"
    expect.tensor(codes, torch.zeros_like(codes), of="quantize_blocks", name="the codes", hint=hint)


def laid_out(x):
    """The same vector, its elements two places apart; and its first element, expanded."""
    return torch.stack([x, x], dim=-1)[:, 1], x[:1].expand(len(x))


@pytest.mark.points(2)
def test_x_need_not_be_contiguous(student, rng):
    """x and levels may be views: columns of a matrix, windows of one vector, or expanded."""
    levels = even_levels(4)
    hint = "how far apart in the storage are neighbouring elements of x?"
    x = torch.randn(24 * 3, generator=rng)[1::3]
    x.copy_(numbers(rng, 24, 6))
    windows = numbers(rng, 36, 6)
    pairs = [(view, levels) for view in (x, *laid_out(x))]
    pairs += [(x, view) for view in laid_out(levels.flip(0) + 0.25)]
    pairs += [(windows[6:], windows[:6]), (windows, windows)]
    for x, given in pairs:
        codes, scales = quantized(student, x, 6, given)
        check_scales(scales, x, 6, given, hint=hint)
        check_codes(codes, scales, x, 6, given, hint=hint)


def test_no_numbers_at_all(student):
    """No numbers give no codes and no scales, and no codes give no numbers."""
    levels = even_levels(4)
    codes, scales = torch.zeros(0, dtype=torch.uint8), torch.zeros(0)
    x, block_size, levels, expected = plain_example()
    with expect.right_call("six numbers"):
        got, _ = quantized(student, x, block_size, levels)
        expect.tensor(got, expected, of="quantize_blocks", name="the codes")
    for block_size, dtype in [(1, torch.float32), (4, torch.float16), (2, torch.float64)]:
        given, own = levels.to(dtype), student.precision.quantize_blocks(x.to(dtype), 3, levels)
        # Another test judges the dtypes where there are numbers.
        codes_of(own)
        wide = getattr(own[-1], "dtype", None) == torch.float32
        quantized(student, x[:0].to(dtype if wide else torch.float32), block_size, levels)
        back = student.precision.dequantize_blocks(expected.byte(), torch.ones(2), 3, given)
        given = given if getattr(back, "dtype", None) == torch.float32 else levels
        check_dequantized(student, codes, scales, block_size, given, hint="0 codes have 0 blocks")


def random_codes(rng, n, block_size, k):
    """Random codes below k, and a scale for each block."""
    codes = torch.randint(0, k, (n,), generator=rng).to(torch.uint8)
    return codes, torch.rand(math.ceil(n / block_size), generator=rng) * 9 + 0.1


def check_dequantized(student, codes, scales, block_size, levels, *, hint):
    """Check dequantize_blocks up to rounding."""
    got = student.precision.dequantize_blocks(codes, scales, block_size, levels)
    check_numbers(got, codes, scales, block_size, levels, hint=hint)


def check_dequantized_each(student, cases, *, hint):
    """Check each of these calls of dequantize_blocks up to rounding."""
    for got, case in zip(answers(student, "dequantize_blocks", cases), cases, strict=True):
        check_numbers(got, *case, hint=hint)


def check_numbers(got, codes, scales, block_size, levels, *, hint):
    """Check the answer of dequantize_blocks up to rounding.

    A level, its product with the scale and the expected value are each rounded to float32. Together
    these errors are below 2 eps32.
    """
    expected = each(scales.double(), block_size, len(codes)) * levels.double()[codes.long()]
    expect.tensor(got, expected.float(), of="dequantize_blocks", rtol=2 * EPS32, hint=hint)


@pytest.mark.core
@pytest.mark.points(11)
def test_dequantize_multiplies_scale_and_level(student, rng):
    """x[i] is scales[i // block_size] · levels[codes[i]], for any number of blocks."""
    cases = []
    for n, block_size, k in [
        (24, 4, 9),
        (24, 8, 24),
        (20, 1, 16),
        (15, 15, 4),
        (1500, 3, 200),
        (30, 3, 256),
        (36, 6, 6),
        (1, 1, 1),
        (4000, 2000, 3),
    ]:
        codes, scales = random_codes(rng, n, block_size, k)
        codes[0] = k - 1
        levels = 3 * uneven_levels(rng, k)[torch.randperm(k, generator=rng)]
        cases.append((codes, scales, block_size, levels))
    hint = (
        "convert uint8 codes to an integer index (torch takes uint8 for a mask); each "
        "scale belongs to block_size neighbours"
    )
    check_dequantized_each(student, cases, hint=hint)


@pytest.mark.points(3)
def test_dequantize_a_short_last_block(student, rng):
    """The last block, or the only one, may be shorter than block_size."""
    cases = []
    for n, block_size in [(23, 5), (16, 5), (14, 5), (3, 8)]:
        codes, scales = random_codes(rng, n, block_size, 9)
        cases.append((codes, scales, block_size, even_levels(4)))
    hint = "return as many numbers as there are codes"
    check_dequantized_each(student, cases, hint=hint)


@pytest.mark.points(2)
def test_dequantize_gives_float32(student, rng):
    """The result is float32 for levels of every dtype."""
    hint = "multiply in float32: the scales are float32, but the levels may not be"
    for dtype, (_, huge) in EXTREMES.items():
        for factor in (1.0, huge / 10):
            codes, scales = random_codes(rng, 40, 8, 9)
            levels = (even_levels(4) * factor).to(dtype)
            check_dequantized(student, codes, scales, 8, levels, hint=hint)


def test_dequantize_takes_any_layout(student, rng):
    """Codes, scales and levels may be views, also windows of one vector, and may be expanded."""
    codes, scales = random_codes(rng, 25, 5, 7)
    levels = 3 * uneven_levels(rng, 7)
    buffer = torch.cat([levels, scales])
    cases = [(buffer[7:], buffer[:7]), (buffer[4:9], buffer)]
    cases += [(view, levels) for view in laid_out(scales)]
    cases += [(scales, view) for view in laid_out(levels)]
    cases = [(codes, *case) for case in cases]
    cases += [(view, scales, levels) for view in laid_out(codes)]
    hint = "how far apart in the storage are neighbouring elements?"
    for codes, scales, levels in cases:
        check_dequantized(student, codes, scales, 5, levels, hint=hint)


@pytest.mark.points(2)
def test_dequantize_takes_scales_of_every_magnitude(student, rng):
    """Scales from 1e-8 to 1e4 keep all their digits, and a scale of 0 gives zeros for any code."""
    codes, scales = random_codes(rng, 60, 3, 9)
    for i, magnitude in enumerate((0.0, *MAGNITUDES)):
        scales[i::5] *= magnitude
    hint = "is a scale or a product rounded, or clamped away from 0? 0 times any level is 0"
    check_dequantized(student, codes, scales, 3, even_levels(4), hint=hint)
    _, others = random_codes(rng, 60, 3, 9)
    for factor in (1e-36, 1e36):  # near the smallest and the largest normal number
        check_dequantized(student, codes, others * factor, 3, even_levels(4), hint=hint)
    for factor in (0.0, *EXTREMES[torch.float32]):
        check_dequantized(student, codes, scales * factor, 3, even_levels(4), hint=hint)
        check_dequantized(student, codes, scales, 3, even_levels(4) * factor, hint=hint)


def test_more_than_256_levels_are_refused(student, rng):
    """257 levels raise a ValueError, because a uint8 code has only 256 values."""
    x, block_size, levels, expected = plain_example()
    with expect.right_call("9 levels"):
        codes, _ = quantized(student, x, block_size, levels)
        expect.tensor(codes, expected, of="quantize_blocks", name="the codes")
    when = "levels has 257 entries"
    for x, levels in [
        (numbers(rng, 6, 3), even_levels(128)),
        (numbers(rng, 6, 3), even_levels(128).round()),  # only three of them differ
        (torch.zeros(0), even_levels(128)),
    ]:
        errors = (ValueError, RuntimeError, OverflowError)
        with expect.raises(errors, of="quantize_blocks", when=when):
            student.precision.quantize_blocks(x, 3, levels)


def test_scales_that_do_not_fit_are_refused(student):
    """Too few or too many scales for the codes and block_size raise a ValueError."""
    levels, codes = (
        even_levels(2),
        torch.tensor([0, 1, 2, 3, 4, 4, 3, 2, 1, 0, 0, 4], dtype=torch.uint8),
    )
    with expect.right_call("12 codes, 3 scales, block_size 4"):
        check_dequantized(student, codes, torch.ones(3), 4, levels, hint=None)
    for count in (0, 1, 2, 4, 12):
        with expect.raises(
            (ValueError, RuntimeError, IndexError),
            of="dequantize_blocks",
            when="scales is not one per block",
        ):
            student.precision.dequantize_blocks(codes, torch.ones(count), 4, levels)
    # A short last block needs one scale as well.
    for n, count, block_size in [(11, 1, 4), (11, 2, 4), (11, 4, 4), (12, 13, 1), (3, 2, 8)]:
        with expect.raises(
            (ValueError, RuntimeError, IndexError),
            of="dequantize_blocks",
            when="scales is not one per block",
        ):
            student.precision.dequantize_blocks(codes[:n], torch.ones(count), block_size, levels)
    when = "there is a scale, but no code"
    with expect.raises((ValueError, RuntimeError, IndexError), of="dequantize_blocks", when=when):
        student.precision.dequantize_blocks(codes[:0], torch.ones(1), 4, levels)


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
    expect.generators_left(got["generators_changed"], of=function)
    return got


@pytest.mark.points(2)
def test_inputs_are_left_as_they_were(student, rng):
    """quantize_blocks and dequantize_blocks do not change their inputs."""
    x, block_size, levels, codes = plain_example()
    cases = [(torch.float32, block_size), (torch.float64, block_size), (torch.float32, 6)]
    for dtype, block_size in [*cases, (torch.float64, 6)]:  # two blocks, or only one
        args = [(3 * x).to(dtype), block_size, levels.to(dtype)]
        for got in (
            kept_inputs(student, "quantize_blocks", args)["result"],
            student.run(probes.without_gradients, function="quantize_blocks", args=args),
        ):
            expect.tensor(codes_of(got), codes, of="quantize_blocks", name="the codes")
        scales = torch.rand(math.ceil(6 / block_size), generator=rng) + 0.5
        args = [codes.to(torch.uint8), scales, block_size, (3 * levels).to(dtype)]
        right = each(scales, block_size, len(codes)) * 3 * levels[codes]
        got = kept_inputs(student, "dequantize_blocks", args)["result"]
        expect.tensor(got, right, of="dequantize_blocks", rtol=2 * EPS32)
        got = student.run(probes.without_gradients, function="dequantize_blocks", args=args)
        expect.tensor(got, right, of="dequantize_blocks", rtol=2 * EPS32)
