"""Chapter 5: the roofline and napkin mathematics."""

from itertools import count

import pytest
import torch

from grader.reference import flop_counting as fc
from grader.reference import resource_accounting as ra
from tests.handout.chapters.c04_flop_counting import GPT2
from tests.handout.claims import Claims, n, plain, power, section, short

BF16, FP32 = torch.bfloat16, torch.float32
H100 = ra.H100_SXM
GPT3 = fc.TransformerConfig(
    vocab_size=50257, context_length=2048, num_layers=96, d_model=12288, num_heads=96, d_ff=4 * 12288, tied_embeddings=True
)

RECIPES = {
    "all in float32": ra.TrainingRecipe(FP32, FP32, (FP32, FP32)),
    "bfloat16 parameter and gradient, float32 states and master": ra.TrainingRecipe(BF16, BF16, (FP32, FP32), FP32),
    "the same without a master": ra.TrainingRecipe(BF16, BF16, (FP32, FP32)),
}
PARAMETERS, TOKENS, DEVICES, MFU = 70 * 10**9, 15 * 10**12, 1024, 0.5  # the run of the worked example


def times(size, dtype):
    """Seconds of compute and of traffic of a square matrix product on an H100."""
    flops = fc.matmul_flops((size, size), (size, size))
    moved = 3 * size**2 * dtype.itemsize
    return flops / H100.peak_flops[dtype], moved / H100.memory_bandwidth


def turn(dtype):
    """The smallest square product that is compute-bound on an H100."""
    return next(
        size for size in count(1) if ra.matmul_intensity(size, size, size, dtype) >= ra.accelerator_intensity(H100, dtype)
    )


def left_out(config, tokens):
    """The share of a forward pass that the rule of 2 FLOPs a parameter and token leaves out."""
    whole = sum(fc.transformer_forward_flops(config, 1, tokens).values())
    return 1 - 2 * ra.transformer_parameters(config) * tokens / whole


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("05_resource_accounting.md")
        self.says(f"{n(1)} GB is {power(10, 9)} bytes")
        self.mentions("H100", 3)
        self.roofline()
        self.what_fits()
        self.how_long()
        self.seen_elsewhere()

    def roofline(self) -> None:
        """Section 5.1."""
        devices = [("A100 80 GB", ra.A100_80GB), ("H100", ra.H100_SXM), ("H200", ra.H200_SXM)]
        for name, hw in devices:
            bf16, fp32 = (short(hw.peak_flops[dtype], unit=12) for dtype in (BF16, FP32))
            bandwidth = short(hw.memory_bandwidth, unit=12)
            intensity = n(ra.accelerator_intensity(hw, BF16), ".1f")
            self.says(f"| {n(name)} | {bf16} | {fp32} | {bandwidth} | {intensity} |")
        m, k, columns = 3, 5, 7
        self.says(f"takes {n(fc.matmul_flops((m, k), (k, columns)) // (m * k * columns))}mkn FLOPs")
        sizes = range(3, 3000, 97)
        self.formula(
            r"\frac{2n^3}{2 \cdot 3n^2} = \frac{n}{3}",
            [ra.matmul_intensity(s, s, s, BF16) == s / 3 == 2 * s**3 / (2 * 3 * s**2) for s in sizes],
        )
        two = BF16.itemsize
        relu = ra.elementwise_intensity(1, 1, 1, BF16)
        self.says(f"one FLOP for {n(two)} bytes read and {n(two)} written, {n(relu, '.2f')} FLOP per byte")
        ridge = n(ra.accelerator_intensity(H100, BF16), ".1f")
        self.says(f"the ridge at {ridge} FLOP per byte")
        self.formula(
            r"= \min\left(1,\ \frac",
            [ra.attainable_mfu(i, H100, BF16) == min(1, i / ra.accelerator_intensity(H100, BF16)) for i in (1, 295, 400)],
        )
        vector = ra.matmul_intensity(1024, 1024, 1, BF16)
        self.says(
            f"takes {n(fc.matmul_flops((1024, 1024), (1024,)) // 1024**2)} FLOPs for each weight of {n(two)} bytes: about {n(round(vector))}."
        )

        size = 1024
        compute, memory = times(size, BF16)
        assert ra.is_compute_bound(2 * size**3, 6 * size**2, H100, BF16)
        self.says(
            f"of n = {n(size)} on an H100. The product has {n(size)} / {n(3)} = {n(ra.matmul_intensity(size, size, size, BF16), '.1f')} FLOP per byte, "
            f"more than {ridge}. It computes for {n(2 * size**3, ',')} / {short(H100.peak_flops[BF16], unit=12)} s = {n(compute * 1e6, '.2f')} µs and moves {n(3 * size**2 * two, ',')} bytes in {n(memory * 1e6, '.2f')} µs. "
            f"So it takes at least {n(ra.roofline_seconds(2 * size**3, 6 * size**2, H100, BF16) * 1e6, '.2f')} µs"
        )
        small = 512
        compute, memory = times(small, BF16)
        best = ra.attainable_mfu(ra.matmul_intensity(small, small, small, BF16), H100, BF16)
        assert compute < memory
        self.says(
            f"At n = {n(small)} it computes for {n(compute * 1e6, '.2f')} µs and moves for {n(memory * 1e6, '.2f')} µs: memory-bound, at {n(best * 100, '.0f')} % MFU"
        )
        self.says(
            f"The turn is at n = {n(turn(BF16))}. In float32 the peak is {n(H100.peak_flops[BF16] / H100.peak_flops[FP32], '.1f')} times lower and an element is "
            f"twice as large: there the turn is at n = {n(turn(FP32))}. A matrix-vector product of that size, {n(size)} × {n(size)}, reaches "
            f"{n(ra.attainable_mfu(vector, H100, BF16) * 100, '.2f')} %."
        )
        # TF32: 1 sign, 8 exponent and 10 mantissa bits, and 494.7e12 dense on an H100, by NVIDIA's data sheet.
        self.says(f"with it, and {n(10)} stored bits of mantissa")
        self.says(f"- {n(two)} bytes for every dtype", f"An MFU above {n(1)} hidden")

    def what_fits(self) -> None:
        """Recipes, and what they leave room for."""
        memory = 8 * H100.memory_bytes
        self.says(f"on {n(8)} H100, {n(memory // 10**9)} GB |")
        for name, recipe in RECIPES.items():
            parts = [recipe.parameter.itemsize, recipe.gradient.itemsize, sum(d.itemsize for d in recipe.optimizer_state)]
            parts += [recipe.master.itemsize] if recipe.master else []
            total = ra.bytes_per_parameter(recipe)
            fits = short(ra.max_parameters(memory, recipe), 1)
            self.says(f"| {name} | {' + '.join(map(n, parts))} = {n(total)} | {fits} |")
        full = RECIPES["all in float32"]
        device, reserve = H100.memory_bytes, 0.25
        state = PARAMETERS * ra.bytes_per_parameter(full)
        exactly = ra.min_devices(PARAMETERS, full, device)
        assert exactly * device == state
        self.says(
            f"{short(PARAMETERS)} parameters at {n(ra.bytes_per_parameter(full))} bytes fill exactly {n(exactly)} devices of {n(device // 10**9)} GB, and with a reserve of "
            f"a quarter they need {n(state / (device * (1 - reserve)), '.1f')}, that is {n(ra.min_devices(PARAMETERS, full, device, reserve))}."
        )
        alone = ra.max_parameters(H100.memory_bytes, full)
        self.says(f"is the limit: {short(alone, 1)} parameters at {n(ra.bytes_per_parameter(full))} bytes on an H100")
        assert float(2**53 + 1) == 2**53
        self.says(f"floats only up to {power(2, 53)} ≈ {short(2**53, 1, 15)}")
        self.says(f"([chapter {section('Activation checkpointing')}]({n('12')}_activation_checkpointing.md))")
        self.says(f"([chapter {section('Counting FLOPs')}]({n('04')}_flop_counting.md) counts them)")
        self.says(f"which are {n((2**30 / 10**9 - 1) * 100, '.1f')} % larger")

    def how_long(self) -> None:
        """Days, parameters, the best model."""
        forward = fc.linear_flops(1, 1, 1)
        assert fc.linear_flops(1, 1, 1, backward=True) == 3 * forward
        self.says(f"A forward pass takes {n(forward)} FLOPs for each parameter and token, the backward pass twice that")
        days = ra.training_days(PARAMETERS, TOKENS, H100, BF16, DEVICES, MFU)
        self.formula(
            r"\frac{6ND}{\text{peak FLOP/s} \cdot \text{MFU} \cdot \text{devices} \cdot 86400}",
            days == 6 * PARAMETERS * TOKENS / (H100.peak_flops[BF16] * MFU * DEVICES * 86400),
        )
        self.says(f"{n(forward)}ND, which is the forward pass alone")
        # What runs reach is a matter of record: PaLM's report, section 4.1; Llama 3's, table 4.
        self.says(
            f"Reported are {n(0.46)} for PaLM {n(540)}B (Chowdhery et al. {n(2022)}) and {n(0.38)} to {n(0.43)} for Llama {n(3)} {n(405)}B (Llama Team {n(2024)})"
        )
        assert ra.mfu(2 * H100.peak_flops[BF16], 1, H100, BF16) == 2, "returned as it is"
        with pytest.raises(ValueError, match="mfu"):
            ra.training_days(1, 1, H100, BF16, 1, 1.01)
        self.says(
            f"(MFU; Chowdhery et al. {n(2022)}). It cannot",
            f"An MFU of {n(40)} for {n(40)} %",
            f"an MFU above {n(1)} is a wrong call",
        )
        low, lower = left_out(GPT2, GPT2.context_length), left_out(GPT3, GPT3.context_length)
        self.says(
            f"{n(low * 100, '.0f')} % of GPT-2 small at {n(GPT2.context_length, ',')} tokens ([§{section('flop_formulas')}]({n('04')}_flop_counting.md)), {n(lower * 100, '.1f')} % of GPT-3 at {n(GPT3.context_length, ',')}."
        )
        each, budget = fc.training_flops(1, 1), 7e21
        best, tokens = ra.compute_optimal(budget)  # its default, about 20: Hoffmann et al. 2022
        ratio = round(tokens / best)
        self.says(
            f"is reached at about {n(ratio)} tokens a parameter (Hoffmann et al. {n(2022)}).",
            f"the {short(PARAMETERS)} on {short(TOKENS, unit=12)} tokens below see {n(TOKENS / PARAMETERS, '.0f')}.",
            f"With D = {n(ratio)}N the budget is C = {n(each)}ND = {n(each * ratio)}N{n('²')}",
        )
        self.formula(
            r"N = \sqrt{\frac{C}{120}}, \qquad D = 20N",
            [abs(best / (budget / 120) ** 0.5 - 1) < 1e-15, abs(tokens / (20 * best) - 1) < 1e-15],
        )
        self.says(f"n // d + {n(1)} for")
        flops, peak = fc.training_flops(PARAMETERS, TOKENS), H100.peak_flops[BF16]
        self.says(
            f"{short(PARAMETERS)} parameters and {short(TOKENS, unit=12)} tokens are {n(each)} · {short(PARAMETERS)} · {short(TOKENS, unit=12)} = {short(flops, 1, 24)} FLOPs. "
            f"{n(DEVICES, ',')} H100 at an MFU of {n(MFU)} compute {n(DEVICES)} · {n(MFU)} · {short(peak, unit=12)} = {short(DEVICES * MFU * peak, 2, 17)} of them a second. "
            f"That makes {n(days, '.2f')} days of {n(24 * 60 * 60, ',')} s."
        )
        size = ra.transformer_parameters(GPT3)
        self.says(
            f"GPT-3 has d = {n(GPT3.d_model, ',')}, d_ff = {n(GPT3.d_ff // GPT3.d_model)}d, {n(GPT3.num_layers)} layers and a tied vocabulary of "
            f"{n(GPT3.vocab_size, ',')}: {short(size, 1)} parameters. {short(300e9)} tokens through it take {short(fc.training_flops(size, 300 * 10**9), 2, 23)} FLOPs."
        )
        budget = 32 * 14 * 86400 * 0.5 * H100.peak_flops[BF16]
        best, tokens = ra.compute_optimal(budget)
        self.says(
            f"{n(32)} H100 for two weeks at an MFU of {n(0.5)} are C = {short(budget, 3, 22)} FLOPs. The compute-optimal model for them has N = {short(best, 1)} parameters "
            f"and sees D = {short(tokens, 0)} tokens."
        )

    def seen_elsewhere(self) -> None:
        """What notes say is quoted (it is what they say); what holds is computed."""
        days = ra.training_days(PARAMETERS, TOKENS, H100, BF16, DEVICES, MFU)
        self.says(
            f"| {short(70e9)} parameters on {short(15e12, unit=12)} tokens take {n('143, 144 or 88')} days | {n(days, '.2f')} days at an MFU of {n(0.5)} on "
            f"{n(1024, ',')} H100; {n(88)} days would need an MFU of {n(0.5 * days / 88, '.2f')} |"
        )
        recipes, seen = [RECIPES["all in float32"], RECIPES["the same without a master"]], ["40e9", "53e9"]
        assert [f"{ra.max_parameters(8 * H100.memory_bytes, recipe) / 1e9:.0f}e9" for recipe in recipes] == seen
        large, slim = (n(ra.bytes_per_parameter(recipe)) for recipe in recipes)
        self.says(
            f"| {n(8)} H100 hold {n(seen[0])}, or {n(seen[1])}, parameters | both: at {large} bytes a parameter and at {slim} |"
        )
        self.says(
            f"| the H100's peak is {plain(ra.A100_80GB.peak_flops[BF16] / 1e12)} TFLOP/s | that is the A100; the H100 has "
            f"{plain(H100.peak_flops[BF16] / 1e12)} dense in bfloat16, and {n(2 * H100.peak_flops[BF16] / 1e12, ',.0f')} only with sparsity |"
        )
        ridge = n(ra.accelerator_intensity(H100, BF16), ".1f")
        self.says(
            f"| a matrix product has an intensity of about {n(300)} | it has n / {n(3)}: any number, by its size. {ridge} is the device's |"
        )
        size = ra.transformer_parameters(GPT3)
        self.says(
            f"| GPT-3 took {n('3.23e23')} FLOPs | {n(fc.training_flops(1, 1))} · {short(size, 1)} · {short(300e9)} = {short(fc.training_flops(size, 300 * 10**9), 2, 23)} |"
        )
