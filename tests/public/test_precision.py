"""precision: limits of floating-point formats, underflow and block quantization. Handout §2.1."""

import pytest
import torch

from kit import expect

X = torch.tensor([1.0, -4.0, 3.0, 0.5, 6.0])
LEVELS = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0])


def codes_and_scales(got):
    """The two tensors that quantize_blocks returned."""
    expect.kind(got, (tuple, list), of="quantize_blocks")
    reason = f"expected two tensors, the codes and the scales, got {len(got)} values"
    expect.that(len(got) == 2, reason, of="quantize_blocks")
    return got


def test_float_spec_of_the_examples(student):
    """float16 has 1 + 5 + 10 bits and ends at 65504; float8_e4m3fn ends at 448."""
    spec = student.precision.float_spec(torch.float16)
    expect.kind(spec, student.precision.FloatSpec, of="float_spec")
    for field, expected, hints in [
        ("bits", 16, {2: "in bits, not in bytes"}),
        ("exponent_bits", 5, {10: "this is the mantissa"}),
        ("mantissa_bits", 10, {11: "the leading 1 is not stored", 5: "this is the exponent"}),
    ]:
        got, more = getattr(spec, field), {"name": field, "inputs": "float16", "hints": hints}
        expect.value(got, expected, of="float_spec", **more)
    for field, expected, hints in [
        ("max", 65504.0, {65536.0: "the largest number is just below 2^16"}),
        ("smallest_normal", 2.0**-14, {2.0**-15: "the bias is 2^(e-1) - 1"}),
        ("smallest_subnormal", 2.0**-24, {2.0**-14: "subnormal numbers are smaller than this"}),
        ("eps", 2.0**-10, {2.0**-11: "eps is the gap after 1, not half of it"}),
    ]:
        more = {"tolerance": 0, "name": field, "inputs": "float16", "hints": hints}
        expect.number(getattr(spec, field), expected, of="float_spec", **more)
    largest = student.precision.float_spec(torch.float8_e4m3fn).max
    hints = {
        240.0: "this format has no infinities: its largest exponent holds numbers, too",
        480.0: "the last code of this format is NaN",
    }
    more = {"tolerance": 0, "name": "max", "inputs": "float8_e4m3fn", "hints": hints}
    expect.number(largest, 448.0, of="float_spec", **more)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1e-8, True), (2.0**-25, True), (3e-8, False), (5e-5, False), (-1e-8, True)],
)
def test_underflows_to_zero_of_the_example(student, value, expected):
    """In float16, |v| ≤ 2⁻²⁵ ≈ 2.98e-8 becomes 0; 5e-5, below the smallest normal, does not."""
    got = student.precision.underflows_to_zero(value, torch.float16)
    why = {
        1e-8: "it is nearer to 0 than to the smallest subnormal number, 2⁻²⁴",
        2.0**-25: "halfway between 0 and 2⁻²⁴, it rounds to 0, whose last bit is even",
        3e-8: "it is nearer to the smallest subnormal number, 2⁻²⁴, than to 0",
        5e-5: "numbers below the smallest normal one are subnormal, and not 0",
        -1e-8: "what counts is |v|",
    }[value]
    inputs = f"{value}, float16"
    expect.value(got, expected, of="underflows_to_zero", inputs=inputs, hints={not expected: why})


def test_quantize_blocks_of_the_example(student):
    """Scales 4/2 and 6/2; a tie goes to the lower index; the last block has one element."""
    inputs = f"x {X.tolist()}, block_size 4, levels {LEVELS.tolist()}"
    codes, scales = codes_and_scales(student.precision.quantize_blocks(X, 4, LEVELS))
    hints = [
        (torch.tensor([1.5, 3.0]), "a negative x may have the largest |x|"),
        (torch.tensor([4.0, 6.0]), "the scale is absmax divided by the largest |level|"),
        (torch.tensor([3.0, 3.0]), "each block has its own scale"),
        (torch.tensor([1.75, 0.0]), "the scale comes from the largest |x|, not from a range"),
    ]
    want, name = torch.tensor([2.0, 3.0]), "the scales"
    more = {"name": name, "inputs": inputs, "hints": hints}
    expect.tensor(scales, want, of="quantize_blocks", **more)
    expected = torch.tensor([2, 0, 3, 2, 4], dtype=torch.uint8)
    hints = [
        (torch.tensor([3, 0, 4, 2, 4]), "is x scaled, and does the lower of two near codes win?")
    ]
    more = {"name": "the codes", "inputs": inputs, "hints": hints}
    expect.tensor(codes, expected, of="quantize_blocks", **more)


def test_quantize_blocks_of_zeros(student):
    """A block of zeros has scale 0, and its codes are valid indices."""
    codes, scales = codes_and_scales(student.precision.quantize_blocks(torch.zeros(3), 3, LEVELS))
    hints = {1e-8: "a lower bound ruins small numbers: 0 is a scale", 1.0: "absmax is 0, not 1"}
    more = {"name": "the scales", "inputs": "x [0, 0, 0]", "hints": hints}
    expect.tensor(scales, torch.zeros(1), of="quantize_blocks", **more)
    expect.kind(codes, torch.Tensor, of="quantize_blocks", name="the codes")
    expect.that(bool((codes < 5).all()), "a code is not an index into levels", of="quantize_blocks")


MASK = "torch takes uint8 codes for a mask: index with codes.long()"


def test_dequantize_blocks_of_the_example(student):
    """Each code's level times the scale of its block."""
    codes = torch.tensor([2, 0, 3, 2, 4], dtype=torch.uint8)
    with expect.suspecting(MASK):
        got = student.precision.dequantize_blocks(codes, torch.tensor([2.0, 3.0]), 4, LEVELS)
    expected = torch.tensor([0.0, -4.0, 2.0, 0.0, 6.0])
    hints = [
        (torch.tensor([0.0, -1.0, 0.5, 0.0, 2 / 3]), "multiply by the scale"),
        (torch.tensor([0.0, -6.0, 2.0, 0.0, 4.0]), "each scale is for 4 codes in a row"),
        (torch.tensor([0.0, -2.0, 1.0, 0.0, 3.0]), "the levels are used as they are"),
        (torch.tensor([0.0, -4.0, 2.0, 0.0, 4.0]), "the last block, though short, has a scale"),
    ]
    inputs = "codes [2, 0, 3, 2, 4], scales [2, 3], block_size 4"
    expect.tensor(got, expected, of="dequantize_blocks", inputs=inputs, hints=hints)


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        (torch.float64, (64, 11, 52)),
        (torch.float32, (32, 8, 23)),
        (torch.bfloat16, (16, 8, 7)),
        (torch.float8_e5m2, (8, 5, 2)),
    ],
)
def test_float_spec_of_other_formats(student, dtype, bits):
    """A format with infinities: its limits follow from its bits, as the module's text says."""
    total, e, m = bits
    bias = (2**e - 2) // 2
    want = {
        "bits": total,
        "exponent_bits": e,
        "mantissa_bits": m,
        "max": 2.0**bias * (2 - 2.0**-m),
        "smallest_normal": 2.0 ** (1 - bias),
        "smallest_subnormal": 2.0 ** (1 - bias - m),
        "eps": 2.0**-m,
    }
    spec = student.precision.float_spec(dtype)
    for field, expected in want.items():
        got = getattr(spec, field)
        expect.number(got, expected, of="float_spec", tolerance=0, name=field, inputs=str(dtype))


@pytest.mark.parametrize(
    ("dtype", "smallest"),
    [
        (torch.float64, 2.0**-1074),
        (torch.float32, 2.0**-149),
        (torch.float16, 2.0**-24),
        (torch.bfloat16, 2.0**-133),
        (torch.float8_e4m3fn, 2.0**-9),
        (torch.float8_e5m2, 2.0**-16),
    ],
)
def test_underflows_to_zero_at_the_limit(student, dtype, smallest):
    """Half of the smallest subnormal is a tie, which goes to 0; numbers above it do not."""
    half = smallest / 2
    cases = [(smallest, False), (-smallest, False)]
    if half:  # float64 has no number below its smallest
        cases += [(half, True), (-half, True), (1.1 * half, False), (-1.1 * half, False)]
    for value, expected in cases:
        got = student.precision.underflows_to_zero(value, dtype)
        expect.value(got, expected, of="underflows_to_zero", inputs=f"{value!r}, {dtype}")


# A view of every second number of its storage.
UNEVEN = torch.tensor([0.3, -3.0, 0.0, 1.0, -0.7, 2.0, 0.31]).repeat_interleave(2)[::2]


def by_definition(x, block_size, levels):
    """Scales and, for each number, the smallest distance that a level can reach."""
    x, levels = x.double(), levels.double()
    scales = torch.stack([b.abs().max() for b in x.split(block_size)]) / levels.abs().max()
    reached = scales.repeat_interleave(block_size)[: len(x), None] * levels
    return scales, reached, (x[:, None] - reached).abs()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1e-8, 1.0, 1e4])
def test_quantize_blocks_takes_the_nearest_level(student, dtype, size):
    """Uneven levels in any order, a short last block, views, and x stays as it is."""
    if dtype is torch.float16 and size == 1e-8:
        size = 1e-4
    generator = torch.Generator().manual_seed(0)
    x = (torch.randn(37, 2, generator=generator, dtype=torch.float64) * size).to(dtype)[:, 0]
    x[8:16] /= 1000
    before = x.clone()
    codes, scales = codes_and_scales(student.precision.quantize_blocks(x, 8, UNEVEN))
    want, _, distances = by_definition(x, 8, UNEVEN)
    inputs, of = f"x {dtype}[37] of about {size:g}, block_size 8, 7 levels", "quantize_blocks"
    expect.value(scales.dtype, torch.float32, of=of, name="the dtype of the scales")
    expect.tensor(scales.double(), want, of=of, rtol=1e-6, name="the scales", inputs=inputs)
    expect.value(codes.dtype, torch.uint8, of=of, name="the dtype of the codes")
    taken = distances.gather(1, codes.long()[:, None])[:, 0]
    worse = (taken > distances.amin(1) + 1e-5 * x.double().abs().max()).sum().item()
    expect.value(worse, 0, of=of, name="codes that are not the nearest level's", inputs=inputs)
    expect.tensor(x, before, of=of, name="x after the call")


def test_quantize_blocks_of_256_levels(student):
    """Codes go up to 255."""
    levels = torch.linspace(-1, 1, 256)
    codes, _ = codes_and_scales(student.precision.quantize_blocks(levels, 256, levels))
    want = torch.arange(256, dtype=torch.uint8)
    expect.tensor(codes, want, of="quantize_blocks", name="the codes", inputs="x = levels")


def test_quantize_blocks_takes_the_lower_index_of_a_tie(student):
    """0.5 is as near to level 1 as to level 0, whichever of them comes first."""
    x = torch.tensor([2.0, 0.5])
    for levels, code in (([1.0, 0.0, 2.0], 0), ([0.0, 1.0, 2.0], 0), ([2.0, 1.0, 0.0], 1)):
        inputs = f"x [2, 0.5], levels {levels}"
        codes, _ = codes_and_scales(student.precision.quantize_blocks(x, 2, torch.tensor(levels)))
        expect.value(codes.tolist()[1], code, of="quantize_blocks", name="its code", inputs=inputs)


def test_quantize_blocks_tells_close_levels_apart(student):
    """In bfloat16, 1 and 1.001 are the same number; distances need a wider dtype."""
    x = torch.tensor([4.0, 1.0], dtype=torch.bfloat16)
    levels = torch.tensor([1.001, 4.0, 1.0])
    codes, _ = codes_and_scales(student.precision.quantize_blocks(x, 2, levels))
    want = torch.tensor([1, 2], dtype=torch.uint8)
    expect.tensor(codes, want, of="quantize_blocks", name="the codes", inputs="x bfloat16 [4, 1]")
    x, levels = torch.tensor([4.01]), torch.tensor([4.0], dtype=torch.bfloat16)
    want, inputs = torch.tensor([1.0025]), "x [4.01], levels bfloat16 [4]"
    _, scales = codes_and_scales(student.precision.quantize_blocks(x, 1, levels))
    expect.tensor(scales, want, of="quantize_blocks", rtol=1e-6, name="the scales", inputs=inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dequantize_blocks_follows_its_definition(student, dtype):
    """Codes up to 255, scales of all sizes, 0 included, and 600 numbers in blocks of 256.

    The result is float32, and the scales stay as they are.
    """
    levels = torch.linspace(-1, 1, 256, dtype=torch.float64).to(dtype)
    codes = torch.arange(600).mul(7).remainder(256).to(torch.uint8)
    scales = torch.tensor([1e-8, 0.0, 1e4])
    before = scales.clone()
    with expect.suspecting(MASK):
        got = student.precision.dequantize_blocks(codes, scales, 256, levels)
    want = scales.double().repeat_interleave(256)[:600] * levels.double()[codes.long()]
    inputs = f"256 levels in {dtype}"
    expect.tensor(got, want.float(), of="dequantize_blocks", rtol=1e-6, inputs=inputs)
    expect.tensor(scales, before, of="dequantize_blocks", name="the scales after the call")


def test_blocks_of_strided_numbers_and_high_codes(student):
    """Every second number of a vector is quantized as its copy is. Code 200 is level 200, not -56.

    The scales that are passed in stay as they are.
    """
    module = student.precision
    x = torch.tensor([1.0, 9.0, -4.0, 9.0, 3.0, 9.0, 0.5, 9.0, 6.0, 9.0])[::2]
    codes, scales = module.quantize_blocks(x, 4, LEVELS)
    expect.tensor(scales, torch.tensor([2.0, 3.0]), of="quantize_blocks", name="the scales")
    want, inputs = torch.tensor([2, 0, 3, 2, 4], dtype=torch.uint8), "every second number"
    expect.tensor(codes, want, of="quantize_blocks", name="the codes", inputs=inputs)
    codes, scales = torch.tensor([200, 128], dtype=torch.uint8), torch.tensor([2.0])
    with expect.suspecting(MASK):
        got = module.dequantize_blocks(codes, scales, 2, torch.arange(210.0))
    want, inputs = torch.tensor([400.0, 256.0]), "codes 200 and 128, scale 2, levels 0 … 209"
    expect.tensor(got, want, of="dequantize_blocks", inputs=inputs)
    name = "the scales after the call"
    expect.tensor(scales, torch.tensor([2.0]), of="dequantize_blocks", name=name)
