"""Chapter 2: floating-point formats, underflow and quantizing in blocks."""

import inspect
import math
from fractions import Fraction

import torch

from grader.solutions.reference import precision as p
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from tests.handout.page_figures import Figures, n, session

F64, F32, F16, BF16 = torch.float64, torch.float32, torch.float16, torch.bfloat16
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
CODE = session("02_precision.md")[1]  # what the page's own blocks define
INTEGERS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}


def decoded(e, m, patterns):
    """The values of bit patterns (without the sign) by the formula of the page.

    Args:
        e: Bits of the exponent.
        m: Bits of the mantissa.
    """
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
        expected = decoded(spec.exponent_bits, spec.mantissa_bits, patterns)
        yield (expected[finite] == got[finite]).all().item()


POSITIVE = decoded(2, 1, torch.arange(2**3)).float()  # those of E2M1, which reserves no pattern
E2M1 = torch.cat([-POSITIVE, POSITIVE])


class Chapter(Figures):
    def beginning(self) -> None:
        self.ratio = ra.H100_SXM.peak_flops[BF16] / ra.H100_SXM.peak_flops[F32]
        self.gives(bf16_speedup=round(self.ratio))

    def bits(self) -> None:
        self.formula(
            "decoding",
            r"E > 0: \quad & 2^{E - \text{bias}} \cdot \left(1 + \frac{M}{2^m}\right) \\ "
            r"E = 0: \quad & 2^{1 - \text{bias}} \cdot \frac{M}{2^m} \\ "
            r"& \text{where bias} = 2^{e-1} - 1 "
            r"\end{aligned}",
            list(formula_holds()),
        )
        self.gives(smallest=decoded(5, 10, torch.tensor(0)))
        spec = p.float_spec(E4M3)
        last = 2**spec.exponent_bits - 1
        bias = 2 ** (spec.exponent_bits - 1) - 1
        patterns = torch.tensor([last << 3 | m for m in range(8)], dtype=torch.uint8)
        (nan,) = patterns.view(E4M3).float().isnan().nonzero().flatten().tolist()
        by_rule = 2.0 ** (last - 1 - bias) * (2 - spec.eps)
        self.gives(nan_mantissa=n(nan, "b"))
        self.gives(largest_e4m3=(2.0 ** (last - bias), spec.max / 2 ** (last - bias), spec.max))
        self.gives(by_rule=by_rule)
        x = -6.5
        sign, field, mantissa = p.float32_fields(x)
        k = 2
        fraction = -x / 2**k
        self.gives(number=(x, 2.0**k, fraction), sign=sign, exponent_field=(k, field - k, field))
        self.gives(mantissa_field=(fraction - 1, 2**23, mantissa))

    def table(self) -> None:
        for dtype in (F64, F32, F16, BF16, E4M3, E5M2):
            spec = p.float_spec(dtype)
            # Half of float64's smallest subnormal number is not a Python float.
            limit = Fraction(spec.smallest_subnormal) / 2
            row = [spec.exponent_bits, spec.mantissa_bits, spec.max, *[spec.smallest_normal] * 2]
            row += [*[spec.smallest_subnormal] * 2, spec.eps, *[limit] * (1 + (dtype == F16))]
            self.gives(format_row=row)

    def how_close(self) -> None:
        spec = p.float_spec(BF16)
        one = torch.tensor(1.0, dtype=BF16)
        after = (one.view(torch.int16) + 1).view(BF16).item()
        assert 2 < math.log10(2 ** (spec.mantissa_bits + 1)) < 3
        x = torch.linspace(1, 2, 10001, dtype=F64)[:-1] * 8
        worst = ((x.to(BF16).double() - x).abs() / x).max().item()
        assert 0.9 * spec.eps / 2 < worst <= spec.eps / 2
        self.gives(eps_divisor=2, significant_bits=spec.mantissa_bits + 1, after_one=after)
        update, steps = 0.003, 1000
        weight = one
        for _ in range(steps):
            weight = weight + update
        assert weight == 1
        self.gives(update=update, updates=steps, true_weight=round(1 + steps * update, 9))
        self.gives(tempting_weight=3.9)  # an option of the bet, and wrong

    def noise(self) -> None:
        """The error of a mini-batch's gradient beside the error of rounding, by the page's code."""
        x, y, error, gradient = CODE.x, CODE.y, CODE.error, CODE.gradient
        w, batch = torch.zeros(x.shape[1], requires_grad=True), 512
        ((x @ w - y).square().mean() / 2).backward()
        assert torch.allclose(w.grad, CODE.full, atol=1e-5)
        rounded = [
            error(gradient(x.to(dtype).float(), y.to(dtype).float()).to(dtype).float())
            for dtype in (BF16, E4M3)
        ]
        percent = [float(one[:-2]) for one in (error(gradient(x[:batch], y[:batch])), *rounded)]
        assert 8 * batch == len(x)  # "an eighth"
        self.gives(noise_weights=x.shape[1])
        self.gives(noise_error=percent[0], noise_bf16=percent[1], noise_e4m3=percent[2])

    def underflow(self) -> None:
        half = p.float_spec(F16)
        step = half.smallest_subnormal
        small, tiny = 5e-5, 1e-8
        stored = torch.tensor(small, dtype=F16).item()
        units = round(stored / step)
        self.gives(small=small, smallest_normal=half.smallest_normal, small_stored=(units, step))
        self.gives(small_bits=units.bit_length(), normal_bits=half.mantissa_bits + 1)
        self.gives(underflow_limit=(step / 2, step / 2))
        scale = inspect.signature(torch.amp.GradScaler).parameters["init_scale"].default
        self.gives(loss_scale=(scale, scale), tiny_gradient=tiny, scaled_gradient=tiny * scale)
        first = next(i for i in range(65504, 65600) if torch.tensor(float(i)).to(F16).isinf())
        self.gives(overflow=first)
        beyond = torch.tensor([500.0, math.inf]).to(E4M3).float()
        if torch.__version__ >= "2.13":  # older versions gave NaN
            assert (beyond == p.float_spec(E4M3).max).all()
        self.gives(saturating_torch=2.13, saturated=p.float_spec(E4M3).max)
        twice = 2**-25 * (1 + 2**-26)
        assert torch.tensor(twice, dtype=F64).float().item() == 2**-25
        assert torch.tensor(twice, dtype=F64).float().half().item() == 0
        self.gives(rounded_twice=(2.0 ** (-25), 1, 2.0 ** (-26)), rounded_once=2.0 ** (-25))

    def story(self) -> None:
        """Parameters as Bekman (2022), The Technology Behind BLOOM Training, gives them."""
        self.gives(failed_model=104e9, larger_model=530e9, bloom_model=176e9)

    def blocks(self) -> None:
        x, size, levels = torch.tensor([1, -4, 3, 0.5, 6]), 4, torch.arange(-2.0, 3)
        codes, scales = p.quantize_blocks(x, size, levels)
        top = levels.abs().max().item()
        largest = [block.abs().max().item() for block in x.split(size)]
        blocks = zip(x.split(size), scales, strict=True)
        units = [(block / scale).tolist() for block, scale in blocks]
        low, high = (u for u in [*units[0], *units[1]] if u % 1 == 0.5)
        self.gives(x=x, block_size=size, levels=levels)
        self.gives(first_scale=(largest[0], top, scales[0].item()))
        self.gives(last_scale=(largest[1], top, scales[1].item()), first_units=units[0])
        self.gives(last_units=units[1], codes=codes, low_tie=low, high_tie=high)
        self.gives(back=p.dequantize_blocks(codes, scales, size, levels))
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
        self.gives(outlier=outlier, draws=count, lowest_level=levels[0].item())
        self.gives(highest_level=levels[-1].item())
        self.gives(outlier_scale=(outlier, levels[-1].item(), outlier / levels.max().item()))
        self.gives(error_one_scale=off[count], outlier_block=block, neighbours=neighbours)
        self.gives(error_in_blocks=off[block])
        count, size = 16, 64
        bits = count.bit_length() - 1
        a_number = bits + 8 * F32.itemsize / size
        self.gives(level_count=count, price_block=size)
        self.gives(bits_a_number=(bits, 8 * F32.itemsize, size, a_number), large_model=70e9)
        self.gives(quantized_gb=70 * a_number / 8, bf16_gb=70 * BF16.itemsize)
        self.gives(device_gb=ra.H100_SXM.memory_bytes // 10**9)
        scalar = torch.tensor(3.0)
        assert (torch.ones(2, dtype=BF16) / scalar).dtype == BF16
        assert scalar.dtype == F32
        self.gives(scalar_dimensions=scalar.dim(), zero_block=(0, 0))

    def block_formats(self) -> None:
        """MX (Rouhani et al. 2023) and NVFP4 (Transformer Engine's documentation)."""
        self.gives(e2m1_levels=POSITIVE)
        rows = [
            ("MXFP8", "E4M3 or E5M2", 8, 32, "E8M0"),
            ("MXFP4", "E2M1", 4, 32, "E8M0"),
            ("NVFP4", "E2M1", 4, 16, "E4M3"),
        ]
        for name, element, bits, block, scale in rows:
            cost = f"{n(bits)} + {n(8)} / {n(block)} = {n(bits + 8 / block)}"
            self.gives(block_format=f"{n(name)} | {n(element)} | {n(block)} | {n(scale)} | {cost}")
        self.gives(fp_eight=n("FP8"), fp_four=n("FP4"), mxfp_eight=n("MXFP8"), mx_block=32)
        self.gives(nvfp_block=16)
        # Abecassis et al. (2025), abstract; Chandiramani et al. (2026), abstract.
        self.gives(nvfp_model=12e9, nvfp_tokens=10e12, nemotron_version=3, nemotron_model=120e9)
        self.gives(nemotron_tokens=25e12)

    def seen_elsewhere(self) -> None:
        """Claims of other notes are quoted; the correct values are computed."""
        half = p.float_spec(F16)
        limit = half.smallest_subnormal / 2
        self.gives(seen_limit=6e-5, normal_limit=(half.smallest_normal, half.smallest_normal))
        self.gives(zero_limit=(limit, limit))
        dense, fp8, fp32 = (ra.H100_SXM.peak_flops[dtype] for dtype in (BF16, E4M3, F32))
        self.gives(a100_tflops=ra.A100_80GB.peak_flops[BF16] / 1e12, sparse_tflops=2 * dense / 1e12)
        self.gives(dense_tflops=dense / 1e12, speedup=self.ratio)
        self.gives(fp32_tflops=fp32 / 1e12)
        self.gives(seen_fp8_speedup=8, fp8_speedup=(fp8 / 1e12, fp32 / 1e12, fp8 / fp32))

    def model(self) -> None:
        bits = 4 + 32 / 64
        self.gives(wren_fp32_gb=wren.PARAMETERS * F32.itemsize / 1e9)
        self.gives(wren_bf16_gb=wren.PARAMETERS * BF16.itemsize / 1e9)
        self.gives(wren_fp8_gb=wren.PARAMETERS * E4M3.itemsize / 1e9)
        self.gives(wren_quantized_gb=wren.PARAMETERS * bits / 8 / 1e9, bits_a_number_again=bits)

    def exercises(self) -> None:
        fits, claimed = 250, 255  # Bekman (2022) says that 255 · 255 overflows
        stored = torch.tensor(claimed, dtype=F16) * claimed
        over = next(i for i in range(1000) if torch.tensor(float(i)).square().half().isinf())
        assert (torch.tensor(fits, dtype=F16) * fits).isfinite()
        self.gives(ex_fits=(fits, fits), ex_claimed=(claimed, claimed))
        self.gives(ex_product=(claimed, claimed, claimed**2), ex_product_stored=stored.item())
        self.gives(ex_overflow=(over, over, over**2))

        weight = 0.5
        above = torch.nextafter(*torch.tensor([weight, 1], dtype=BF16)).item()
        step = above - weight
        half = step / 2
        for update, moves in ((half * 1.01, True), (half, False), (-half / 2 * 1.01, True)):
            moved = torch.tensor(weight, dtype=BF16) + torch.tensor(update, dtype=BF16)
            assert (moved.item() != weight) == moves
        self.gives(ex_weight=weight, ex_step=(weight, p.float_spec(BF16).eps, step))
        self.gives(ex_half_step=half)
        far, tenth = torch.tensor(70_000.0), torch.tensor(0.1, dtype=torch.float64)
        assert far.to(F16).isinf()
        off = [abs(tenth.to(dtype).double() - tenth).item() for dtype in (F16, BF16)]
        self.gives(ex_far=70000, ex_far_stored=far.to(BF16).item(), ex_tenth=0.1)
        self.gives(ex_tenth_half=off[0], ex_tenth_bf16=off[1])

        x = torch.tensor([12, -6.4, 2.6, 0.4])
        integers = torch.arange(-7.0, 8)
        codes, (scale,) = p.quantize_blocks(x, len(x), E2M1)
        back = p.dequantize_blocks(codes, scale[None], len(x), E2M1)
        self.gives(ex_block_x=x, ex_float_scale=(x[0].item(), E2M1.max().item(), scale.item()))
        self.gives(ex_float_units=x / scale, ex_float_levels=back / scale, ex_float_back=back)
        codes, (scale,) = p.quantize_blocks(x, len(x), integers)
        equal = p.dequantize_blocks(codes, scale[None], len(x), integers)
        self.gives(ex_int_scale=(x[0].item(), 7, scale.item()), ex_int_back=equal)

        off = {}
        for size in (32, 16):
            back = p.dequantize_blocks(*p.quantize_blocks(CODE.draws, size, E2M1), size, E2M1)
            off[size] = (back - CODE.draws).abs().mean().item()
        self.gives(last_gain=100 * (1 - off[16] / off[32]))

        self.gives(ex_state_bytes=ra.bytes_per_parameter(wren.RECIPE), ex_copy_bytes=BF16.itemsize)
        self.gives(ex_nvfp_bytes=(4 + 8 / 16) / 8)
