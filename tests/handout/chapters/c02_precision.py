"""Chapter 2: floating-point formats, underflow and quantizing in blocks."""

import inspect
import math

import torch

from grader.solutions.reference import precision as p
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from tests.handout.page_figures import Figures, n, plain, power, scientific, short

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def exponent_of(value):
    """The exponent k of a value that is exactly 2 to the power k."""
    mantissa, exponent = math.frexp(value)
    assert mantissa == 0.5
    return exponent - 1


def two_to(value):
    """A power of two as a figure, such as 2⁻¹⁴."""
    return power(2, exponent_of(value))


def decoded(dtype, patterns):
    """The values of a dtype's bit patterns (without the sign) by the formula of the page."""
    spec = p.float_spec(dtype)
    e, m = spec.exponent_bits, spec.mantissa_bits
    exponent, mantissa = patterns >> m, (patterns & (2**m - 1)).double()
    bias = 2 ** (e - 1) - 1
    two = torch.tensor(2.0, dtype=F64)
    normal = two ** (exponent - bias) * (1 + mantissa / 2**m)
    return torch.where(exponent > 0, normal, two ** (1 - bias) * (mantissa / 2**m))


def formula_holds():
    """Check the formula for all finite numbers of the small formats and some of the large ones."""
    for dtype in (E4M3, E5M2, F16, BF16, F32, F64):
        spec = p.float_spec(dtype)
        count = 2 ** (spec.bits - 1)
        patterns = torch.tensor(range(0, count, max(1, count // 2**15)))
        got = patterns.to(INTEGERS[spec.bits]).view(dtype).double()
        finite = got.isfinite()
        yield (decoded(dtype, patterns)[finite] == got[finite]).all().item()


def vector(values):
    """Numbers as a figure, such as (1, −4, 0.5)."""
    return n(f"({', '.join(f'{value:g}' for value in values)})".replace("-", "−"))


class Chapter(Figures):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("02_precision.md")
        self.ratio = ra.H100_SXM.peak_flops[BF16] / ra.H100_SXM.peak_flops[F32]
        assert F32.itemsize == 2 * BF16.itemsize
        self.gives(bf16_speedup=round(self.ratio))
        self.bits()
        self.table()
        self.how_close()
        self.underflow()
        self.blocks()
        self.seen_elsewhere()
        self.model()
        self.exercises()

    def bits(self) -> None:
        """The fields of a number."""
        self.formula(
            "decoding",
            r"E > 0: \quad & 2^{E - \text{bias}} \cdot \left(1 + \frac{M}{2^m}\right) \\ "
            r"E = 0: \quad & 2^{1 - \text{bias}} \cdot \frac{M}{2^m} "
            r"\end{aligned} \qquad \text{where} \quad \text{bias} = 2^{e-1} - 1",
            list(formula_holds()),
        )
        half = torch.tensor([0, 1, 2**10 - 1, 2**10], dtype=torch.int16).view(F16).double().tolist()
        assert half[0] == 0
        assert half[3] - half[2] == half[1] - half[0]
        self.gives(smallest=n(half[0], ".0f"))

        spec = p.float_spec(E4M3)
        last = 2**spec.exponent_bits - 1
        bias = 2 ** (spec.exponent_bits - 1) - 1
        nan = [
            m for m in range(8) if torch.tensor(last << 3 | m, dtype=torch.uint8).view(E4M3).isnan()
        ]
        by_rule = 2.0 ** (last - 1 - bias) * (2 - spec.eps)
        assert decoded(E4M3, torch.tensor(last << 3 | 6)) == spec.max
        self.gives(
            nan_mantissa=n(nan[0], "b"),
            largest_e4m3=(
                f"{power(2, last - bias)} · {plain(spec.max / 2 ** (last - bias))} = "
                f"{plain(spec.max)}"
            ),
            by_rule=plain(by_rule),
        )
        assert len(nan) == 1
        x = -6.5
        sign, field, mantissa = p.float32_fields(x)
        k = 2
        fraction = -x / 2**k
        self.gives(
            number=f"{plain(x)} = −{power(2, k)} · {plain(fraction)}",
            sign=sign,
            exponent_field=f"{n(k)} + {n(field - k)} = {n(field)}",
            mantissa_field=f"{plain(fraction - 1)} · {power(2, 23)} = {n(mantissa, ',')}",
        )
        assert field - k == 2 ** (8 - 1) - 1
        assert mantissa == (fraction - 1) * 2**23

    def table(self) -> None:
        """The table of six formats."""
        for dtype in (F64, F32, F16, BF16, E4M3, E5M2):
            spec = p.float_spec(dtype)
            largest = plain(spec.max) if spec.max < 1e6 else scientific(spec.max, 2)
            normal, subnormal = (
                n(f"{value:.3g}") if value > 1e-3 else scientific(value, 2)
                for value in (spec.smallest_normal, spec.smallest_subnormal)
            )
            # Powers of two, because half of float64's smallest subnormal number is not a Python
            # float.
            limit = exponent_of(spec.smallest_subnormal) - 1
            if dtype != F64:
                assert p.underflows_to_zero(2.0**limit, dtype)
                assert not p.underflows_to_zero(math.nextafter(2.0**limit, 1), dtype)
            value = f" = {scientific(2.0**limit, 2)}" if dtype == F16 else ""
            cells = [f"{n(spec.exponent_bits)}, {n(spec.mantissa_bits)}", largest]
            cells += [
                f"{two_to(spec.smallest_normal)} = {normal}",
                f"{two_to(spec.smallest_subnormal)} = {subnormal}",
            ]
            cells += [two_to(spec.eps), f"{power(2, limit)}{value}"]
            self.gives(format_row=" | ".join(cells))

    def how_close(self) -> None:
        """eps, bfloat16, lost updates."""
        spec = p.float_spec(BF16)
        one = torch.tensor(1.0, dtype=BF16)
        after = (one.view(torch.int16) + 1).view(BF16).item()
        assert after == 1 + spec.eps
        assert 2 < math.log10(2 ** (spec.mantissa_bits + 1)) < 3
        assert spec.exponent_bits == p.float_spec(F32).exponent_bits
        x = torch.linspace(1, 2, 10001, dtype=F64)[:-1] * 8
        worst = ((x.to(BF16).double() - x).abs() / x).max().item()
        assert 0.9 * spec.eps / 2 < worst <= spec.eps / 2
        self.gives(
            eps_divisor=2, significant_bits=spec.mantissa_bits + 1, after_one=n(after, ".4f")
        )
        update, steps = 0.003, 1000
        weight = one
        for _ in range(steps):
            weight = weight + update
        assert update < spec.eps / 2
        self.gives(
            update=update,
            updates=n(steps, ","),
            stuck_weight=plain(weight.item()),
            true_weight=plain(round(1 + steps * update, 9)),
        )

    def underflow(self) -> None:
        """The point where small numbers become 0."""
        half = p.float_spec(F16)
        step = half.smallest_subnormal
        small, tiny = 5e-5, 1e-8
        stored = torch.tensor(small, dtype=F16).item()
        units = round(stored / step)
        assert stored == units * step
        self.gives(
            small=n(f"{small:.0e}".replace("e-0", "e-")),
            smallest_normal=two_to(half.smallest_normal),
            small_stored=f"{n(units)} · {two_to(step)}",
            small_bits=units.bit_length(),
            normal_bits=half.mantissa_bits + 1,
            underflow_limit=f"{two_to(step / 2)} ≈ {scientific(step / 2, 2)}",
            often_named_limit=scientific(half.smallest_normal, 1),
        )
        assert stored < half.smallest_normal
        scale = inspect.signature(torch.amp.GradScaler).parameters["init_scale"].default
        self.gives(
            loss_scale=f"{two_to(scale)} = {n(scale, ',.0f')}",
            tiny_gradient=n(f"{tiny:.0e}".replace("e-0", "e-")),
            scaled_gradient=scientific(tiny * scale, 1),
        )
        first = next(i for i in range(65504, 65600) if torch.tensor(float(i)).to(F16).isinf())
        self.gives(overflow=n(first, ","))
        twice = 2**-25 * (1 + 2**-26)
        assert torch.tensor(twice, dtype=F64).float().item() == 2**-25
        assert torch.tensor(twice, dtype=F64).float().half().item() == 0
        assert not p.underflows_to_zero(twice, F16)
        assert p.underflows_to_zero(2**-25, F16)
        self.gives(
            rounded_twice=f"{power(2, -25)} · ({n(1)} + {power(2, -26)})",
            rounded_once=power(2, -25),
        )

    def blocks(self) -> None:
        """Quantizing in blocks."""
        x, size, levels = torch.tensor([1, -4, 3, 0.5, 6]), 4, torch.arange(-2.0, 3)
        codes, scales = p.quantize_blocks(x, size, levels)
        top = levels.abs().max().item()
        largest = [block.abs().max().item() for block in x.split(size)]
        units = [
            (block / scale).tolist() for block, scale in zip(x.split(size), scales, strict=True)
        ]
        ties = [u for u in [*units[0], *units[1]] if u % 1 == 0.5]
        self.gives(
            x=vector(x),
            block_size=size,
            levels=vector(levels),
            first_scale=f"{plain(largest[0])} / {plain(top)} = {plain(scales[0].item())}",
            last_scale=f"{plain(largest[1])} / {plain(top)} = {plain(scales[1].item())}",
            first_units=vector(units[0]),
            last_units=vector(units[1]),
            codes=vector(codes),
            low_tie=plain(ties[0]),
            high_tie=plain(ties[1]),
            back=vector(p.dequantize_blocks(codes, scales, size, levels)),
        )
        assert len(ties) == 2
        assert all(
            levels[c] == math.floor(u)
            for c, u in zip(codes.tolist(), units[0], strict=False)
            if u in ties
        )

        count, outlier, block, levels = 4096, 100, 64, torch.arange(-7.0, 8)
        x = torch.randn(count, generator=torch.Generator().manual_seed(0))
        x[1000] = outlier
        others = torch.arange(count) != 1000
        off, zeros = {}, {}
        for size in (count, block):
            codes, scales = p.quantize_blocks(x, size, levels)
            back = p.dequantize_blocks(codes, scales, size, levels)
            off[size] = (back - x)[others].abs().mean().item()
            zeros[size] = [(values == 0).sum().item() for values in back.split(block)]
        assert sum(zeros[count]) == count - 1
        neighbours = max(zeros[block])
        assert zeros[block].index(neighbours) == 1000 // block
        assert sorted(zeros[block])[-2] < block / 2
        self.gives(
            outlier=outlier,
            draws=n(count, ","),
            lowest_level=n(levels[0].item(), ".0f"),
            highest_level=n(levels[-1].item(), ".0f"),
            outlier_scale=(
                f"{n(outlier)} / {n(levels[-1].item(), '.0f')} = "
                f"{n(outlier / levels.max().item(), '.1f')}"
            ),
            error_one_scale=n(off[count], ".1f"),
            outlier_block=block,
            neighbours=neighbours,
            error_in_blocks=n(off[block], ".1f"),
        )
        count, size = 16, 64
        bits = count.bit_length() - 1
        a_number = bits + 8 * F32.itemsize / size
        self.gives(
            level_count=count,
            price_block=size,
            level_bits=bits,
            bits_a_number=f"{n(bits)} + {n(8 * F32.itemsize)} / {n(size)} = {plain(a_number)}",
            large_model=short(70e9),
            quantized_gb=n(70 * a_number / 8, ".1f"),
            bf16_gb=70 * BF16.itemsize,
            device_gb=ra.H100_SXM.memory_bytes // 10**9,
        )
        scalar = torch.tensor(3.0)
        assert (torch.ones(2, dtype=BF16) / scalar).dtype == BF16
        assert scalar.dtype == F32
        self.gives(scalar_dimensions=scalar.dim(), zero_block=f"{n(0)} / {n(0)}")

    def seen_elsewhere(self) -> None:
        """Claims of other notes are quoted; the correct values are computed."""
        half = p.float_spec(F16)
        limit = half.smallest_subnormal / 2
        self.gives(
            seen_limit=n("6e-5"),
            normal_limit=f"{two_to(half.smallest_normal)} = {scientific(half.smallest_normal, 1)}",
            zero_limit=f"{two_to(limit)} = {scientific(limit, 2)}",
        )
        stored = torch.tensor(1e-8).to(BF16)
        mantissa, exponent = math.frexp(stored.item())
        units = round(mantissa * 2**8)
        assert units * 2.0 ** (exponent - 8) == stored.item()
        printed = str(torch.stack([stored])).removeprefix("tensor([").split("]")[0]
        self.gives(
            seen_value=n("1e-8"),
            seen_print=n("1.0000e-08"),
            print=n(printed),
            print_exact=f"{n(units)} · {power(2, exponent - 8)}",
        )
        dense = ra.H100_SXM.peak_flops[BF16]
        a100, sparse = plain(ra.A100_80GB.peak_flops[BF16] / 1e12), n(2 * dense / 1e12, ",.0f")
        self.gives(
            a100_tflops=a100,
            sparse_tflops=sparse,
            dense_tflops=plain(dense / 1e12),
            speedup=n(self.ratio, ".1f"),
            fp32_tflops=plain(ra.H100_SXM.peak_flops[F32] / 1e12),
        )

    def model(self) -> None:
        """The weights of Wren."""
        bits = 4 + 32 / 64
        self.gives(
            wren_fp32_gb=n(wren.PARAMETERS * F32.itemsize / 1e9, ".2f"),
            wren_bf16_gb=n(wren.PARAMETERS * BF16.itemsize / 1e9, ".2f"),
            wren_fp8_gb=n(wren.PARAMETERS * E4M3.itemsize / 1e9, ".2f"),
            wren_quantized_gb=n(wren.PARAMETERS * bits / 8 / 1e9, ".2f"),
            bits_a_number_again=plain(bits),
        )

    def exercises(self) -> None:
        """The answers."""
        after = {
            x: torch.nextafter(torch.tensor(x, dtype=BF16), torch.tensor(1e9, dtype=BF16)).item()
            for x in (0.5, 2.0, 256.0)
        }
        eps = power(2, round(math.log2(p.float_spec(BF16).eps)))
        self.gives(
            ex_two=2,
            ex_large=256,
            ex_after_two=f"{n(2)} + {n(2)} · {eps} = {plain(after[2.0])}",
            ex_after_large=f"{n(256)} + {n(256)} · {eps} = {plain(after[256.0])}",
            ex_missing=257,
        )
        assert torch.tensor(257.0).to(BF16).item() != 257

        gradient, scale, limit = 2e-8, 1024, p.float_spec(F16).smallest_subnormal / 2
        assert p.underflows_to_zero(gradient, F16)
        scaled = torch.tensor(gradient * scale, dtype=F16).item()
        assert abs(scaled / scale / gradient - 1) < 0.01
        self.gives(
            ex_gradient=scientific(gradient, 0),
            ex_scale=n(scale, ","),
            ex_limit=f"{two_to(limit)} ≈ {scientific(limit, 2)}",
            ex_scaled=scientific(scaled, 2),
        )

        weight, step = 0.5, after[0.5] - 0.5
        half = step / 2
        for update, moves in ((half * 1.01, True), (half, False), (-half / 2 * 1.01, True)):
            moved = torch.tensor(weight, dtype=BF16) + torch.tensor(update, dtype=BF16)
            assert (moved.item() != weight) == moves
        self.gives(
            ex_weight=plain(weight),
            ex_step=f"{plain(weight)} · {eps} = {n(step, '.4f')}",
            ex_half_step=n(half, ".5f"),
        )
        self.gives(
            ex_bits=4,
            ex_block=32,
            ex_cost=f"{n(4)} + {n(16)} / {n(32)} = {plain(4 + 8 * F16.itemsize / 32)}",
        )

        far, tenth = torch.tensor(70_000.0), torch.tensor(0.1, dtype=torch.float64)
        assert far.to(F16).isinf()
        off = [abs(tenth.to(dtype).double() - tenth).item() for dtype in (F16, BF16)]
        self.gives(
            ex_far=n(70_000, ","),
            ex_far_stored=n(far.to(BF16).item(), ",.0f"),
            ex_tenth=plain(0.1),
            ex_tenth_half=scientific(off[0]),
            ex_tenth_bf16=scientific(off[1]),
        )
