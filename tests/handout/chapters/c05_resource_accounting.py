"""Chapter 5: the roofline and estimates on paper."""

import math
from dataclasses import replace

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import quizzes, wren
from handout.site.calculator_formulas import FULL, LOWEST, MASTER, RECIPES, SLIM, recipe_name
from tests.handout.chapters.c04_flop_counting import GPT2, GPT3
from tests.handout.page_figures import Figures, n

BF16, FP32 = torch.bfloat16, torch.float32
H100 = ra.H100_SXM
# The run of the solved example.
PARAMETERS, TOKENS, DEVICES, MFU = 70 * 10**9, 15 * 10**12, 1024, 0.5


def times(size, dtype):
    """Seconds of compute and of memory traffic for a square matrix product on an H100."""
    flops = fc.matmul_flops((size, size), (size, size))
    moved = 3 * size**2 * dtype.itemsize
    return flops / H100.peak_flops[dtype], moved / H100.memory_bandwidth


def turn(dtype):
    """The size of the smallest square product that is compute-bound on an H100."""
    ridge = ra.accelerator_intensity(H100, dtype)
    return quizzes.first(lambda size: ra.matmul_intensity(size, size, size, dtype) >= ridge)


def left_out(config, tokens):
    """The share of a forward pass that the rule of 2 FLOPs per parameter and token leaves out."""
    whole = sum(fc.transformer_forward_flops(config, 1, tokens).values())
    return 1 - 2 * ra.transformer_parameters(config) * tokens / whole


class Chapter(Figures):
    def beginning(self) -> None:
        card, tuned = 8 * 10**9, 7 * 10**9
        self.gives(card_gb=card / 1e9, tuned=tuned)
        # Codes of four bits, and a float32 scale for each block of 64.
        self.gives(tuned_gb=tuned * (4 + 32 / 64) / 8 / 1e9)
        self.gives(card_fits=ra.max_parameters(card, FULL))
        self.gives(seen_letters=fc.training_flops(1, 1))

    def roofline(self) -> None:
        devices = [("A100 80 GB", ra.A100_80GB), ("H100", ra.H100_SXM), ("H200", ra.H200_SXM)]
        for name, hw in devices:
            row = [hw.peak_flops[BF16], hw.peak_flops[FP32], hw.memory_bandwidth]
            self.gives(device_name=n(name), device=[*row, ra.accelerator_intensity(hw, BF16)])
        m, k, columns = 3, 5, 7
        self.gives(product_flops=fc.matmul_flops((m, k), (k, columns)) // (m * k * columns))
        square = r"\frac{2n^3}{2 \cdot 3n^2} = \frac{n}{3}"
        s = 3000
        holds = ra.matmul_intensity(s, s, s, BF16) == s / 3 == 2 * s**3 / (2 * 3 * s**2)
        self.formula("square_intensity", square, holds)
        two = BF16.itemsize
        relu = ra.elementwise_intensity(1, 1, 1, BF16)
        # NVIDIA's H100 white paper: bfloat16 without tensor cores, on the SXM5 model.
        vector_peak, gelu = 133.8e12, 20
        vector_ridge = vector_peak / H100.memory_bandwidth
        assert gelu / (2 * two) < vector_ridge
        self.gives(bf16_bytes=two, relu_intensity=relu, vector_peak=vector_peak)
        self.gives(vector_ridge=vector_ridge, flops_to_turn=2 * two * round(vector_ridge))
        self.gives(bet_relu=1, bet_gelu=gelu, relu_bytes=2 * two)
        self.gives(gelu_intensity=ra.elementwise_intensity(gelu, 1, 1, BF16))
        # Dao et al. (2022), figure 2: GPT-2 medium on an A100, forward and backward.
        batch, heads, tokens, head = 64, 16, 1024, 64
        scores = 2 * fc.matmul_flops((batch, heads, tokens, head), (batch, heads, head, tokens))
        plainly, fused = 3 * scores, 3 * scores + scores // 2
        assert fused * 6 == plainly * 7, "a sixth more"
        self.gives(flash_gpt=2, flash_batch=batch, flash_tokens=tokens, flash_heads=heads)
        self.gives(flash_head=head, flash_flops=75.2e9, plain_flops=66.6e9)
        self.gives(ex_plain_flops=(12, batch, heads, tokens**2, head, plainly))
        self.gives(ex_flash_flops=fused, ex_flash_factor=fused / 75.2e9)
        self.gives(ex_paper_speed=75.2e9 / 7.3e-3 / 1e12, ex_own_speed=fused / 7.3e-3 / 1e12)
        self.gives(ex_peak=312, flash_gb=4.4, plain_gb=40.3, flash_ms=7.3, plain_ms=41.7)
        self.gives(flash_faster=41.7 / 7.3, flops_per_row=n("2kn"))
        flips, (k, columns) = [], (2048, 8192)
        for m in (360, 361):
            moved = two * (m * k + k * columns + m * columns)
            bound = ra.is_compute_bound(2 * m * k * columns, moved, H100, BF16)
            flips.append(bound == (m >= ra.min_rows(k, columns, H100, BF16)))
        memory = r"\frac{(mk + kn + mn) \cdot \text{bytes per number}}{\text{bandwidth}}"
        self.formula("flip_formula", r"\frac{2mkn}{\text{peak FLOP/s}} > " + memory, flips)
        ridge = ra.accelerator_intensity(H100, BF16)
        self.gives(ridge=n(ridge, ".1f"))
        best = [ra.attainable_mfu(i, H100, BF16) == min(1, i / ridge) for i in (1, 295, 400)]
        self.formula("full_mfu", r"\min\left(1", best)
        vector = ra.matmul_intensity(1024, 1024, 1, BF16)
        self.gives(vector_flops=fc.matmul_flops((1024, 1024), (1024,)) // 1024**2)
        self.gives(vector_intensity=round(vector))

        size = 1024
        compute, memory = times(size, BF16)
        self.gives(size=size, size_intensity=(size, 3, ra.matmul_intensity(size, size, size, BF16)))
        self.gives(size_compute=(2 * size**3, H100.peak_flops[BF16]), size_compute_us=compute * 1e6)
        self.gives(size_bytes=3 * size**2 * two, size_memory_us=memory * 1e6)
        self.gives(size_least_us=ra.roofline_seconds(2 * size**3, 6 * size**2, H100, BF16) * 1e6)
        self.gives(size_sum_us=(compute + memory) * 1e6)
        # With few rows the intensity is about their number, so the ridge is the number needed.
        for rows in (1, 16, 64):
            assert 0.95 < ra.matmul_intensity(rows, 8192, 8192, BF16) / rows <= 1
        self.gives(rows_needed=round(ra.accelerator_intensity(H100, BF16), -2))
        small = 512
        compute, memory = times(small, BF16)
        best = ra.attainable_mfu(ra.matmul_intensity(small, small, small, BF16), H100, BF16)
        assert compute < memory
        self.gives(small_size=small, small_compute_us=compute * 1e6, small_memory_us=memory * 1e6)
        self.gives(small_mfu=best * 100, turn=turn(BF16))
        self.gives(fp32_slower=H100.peak_flops[BF16] / H100.peak_flops[FP32], turn_fp32=turn(FP32))
        self.gives(vector_matrix=(size, size))
        self.gives(vector_mfu=ra.attainable_mfu(vector, H100, BF16) * 100)
        # TF32: 1 sign, 8 exponent and 10 mantissa bits, and 494.7e12 dense on an H100, by NVIDIA's
        # data sheet.
        self.gives(tf32_mantissa=10)

    def what_fits(self) -> None:
        memory = 8 * H100.memory_bytes
        self.gives(node_devices=8, node_gb=memory // 10**9)
        for recipe in (FULL, MASTER, SLIM):
            _, *sizes = RECIPES[recipe_name(recipe)].values()
            sizes = [size for size in sizes if size]
            total = ra.bytes_per_parameter(recipe)
            self.gives(recipe_row=(sizes, total, ra.max_parameters(memory, recipe)))
        device, reserve = H100.memory_bytes, 0.25
        state = PARAMETERS * ra.bytes_per_parameter(FULL)
        exactly = ra.min_devices(PARAMETERS, FULL, device)
        self.gives(parameters=PARAMETERS, recipe_bytes=ra.bytes_per_parameter(FULL))
        self.gives(exact_devices=exactly, device_gb=device // 10**9)
        self.gives(reserved_devices=state / (device * (1 - reserve)))
        self.gives(rounded_devices=ra.min_devices(PARAMETERS, FULL, device, reserve))
        # As nvidia-smi reports it for an H100 80GB HBM3.
        real = 81_559 * 2**20
        self.gives(real_mib=81559, real_bytes=real, counted_bytes=device)
        self.gives(real_reserve=100 * (1 - device / real))
        # The offers of the code: the answer is asserted there.
        prices = 1.2 / 3.0, ra.A100_80GB.peak_flops[BF16] / H100.peak_flops[BF16]
        self.gives(price_share=100 * prices[0], speed_share=100 * prices[1], bet_hours=20)
        self.gives(bet_devices=32, alone=ra.max_parameters(device, FULL))
        self.gives(gib_excess=(2**30 / 10**9 - 1) * 100)

    def how_long(self) -> None:
        self.gives(forward_rule=fc.linear_flops(1, 1, 1))
        days = ra.training_days(PARAMETERS, TOKENS, H100, BF16, DEVICES, MFU)
        self.formula(
            "training_days",
            r"\frac{6ND}{\text{peak FLOP/s} \cdot \text{MFU} \cdot \text{devices} \cdot 86400}",
            days == 6 * PARAMETERS * TOKENS / (H100.peak_flops[BF16] * MFU * DEVICES * 86400),
        )
        # The MFU of real runs comes from reports: PaLM's, section 4.1; Llama 3's, table 4.
        self.gives(palm_mfu=0.46, palm_size=540, llama_mfu_low=0.38, llama_mfu_high=0.43)
        self.gives(llama_model=(3, 405))
        self.gives(wrong_mfu=40)
        share = left_out(GPT3, GPT3.context_length)
        assert share < left_out(GPT2, GPT2.context_length)  # "the wider, the less"
        self.gives(gpt3_left_out=share * 100, gpt3_tokens=GPT3.context_length)
        self.gives(experts_rule=f"{n(fc.training_flops(1, 1))}ND")
        each, budget = fc.training_flops(1, 1), 7e21
        # The default ratio is about 20: Hoffmann et al. (2022).
        best, tokens = ra.compute_optimal(budget)
        ratio = round(tokens / best)
        self.gives(tokens_a_parameter=ratio, parameters=PARAMETERS, tokens=TOKENS)
        self.gives(tokens_seen=TOKENS / PARAMETERS)
        self.gives(budget_rule=f"{n(each)}ND = {n(each * ratio)}N{n('²')}")
        holds = [abs(best / (budget / 120) ** 0.5 - 1) < 1e-15, abs(tokens / best / 20 - 1) < 1e-15]
        self.formula("compute_optimal", r"N = \sqrt{\frac{C}{120}}, \qquad D = 20N", holds)
        flops, peak = fc.training_flops(PARAMETERS, TOKENS), H100.peak_flops[BF16]
        self.gives(run_flops=(each, PARAMETERS, TOKENS, flops), devices=DEVICES, mfu=MFU)
        self.gives(run_speed=(DEVICES, MFU, peak, DEVICES * MFU * peak), days=days)
        self.gives(day_seconds=24 * 60 * 60)
        twelve = replace(GPT3, num_layers=12, d_model=1024, num_heads=16, d_ff=4096)
        square, vocabulary = 12 * 1024**2, twelve.vocab_size * 1024
        self.gives(part_width=1024, part_attention=(12, 4, 1024**2, 4 * square))
        self.gives(part_ffn=(12, 8, 1024**2, 8 * square), part_embedding=vocabulary)
        self.gives(part_total=ra.transformer_parameters(twelve))
        size = ra.transformer_parameters(GPT3)
        self.gives(gpt3_width=GPT3.d_model, gpt3_ff=GPT3.d_ff // GPT3.d_model)
        self.gives(gpt3_layers=GPT3.num_layers, gpt3_vocabulary=GPT3.vocab_size, gpt3_size=size)
        self.gives(gpt3_run_tokens=300e9, gpt3_flops=fc.training_flops(size, 300 * 10**9))
        budget = 32 * 14 * 86400 * 0.5 * H100.peak_flops[BF16]
        best, tokens = ra.compute_optimal(budget)
        self.gives(two_week_devices=32, two_week_mfu=0.5, budget=budget, best_size=best)
        self.gives(best_tokens=tokens)

    def seen_elsewhere(self) -> None:
        days = ra.training_days(PARAMETERS, TOKENS, H100, BF16, DEVICES, MFU)
        self.gives(parameters=70e9, tokens=15e12, seen_days=n("143, 144 or 88"), days=days, mfu=0.5)
        self.gives(devices=1024, seen_shortest=88, needed_mfu=0.5 * days / 88)
        large, slim = map(ra.bytes_per_parameter, (FULL, SLIM))
        self.gives(node_devices=8, recipe_bytes=large, slim_bytes=slim)
        ridge = n(ra.accelerator_intensity(H100, BF16), ".1f")
        self.gives(seen_intensity=300, intensity_divisor=3, ridge=ridge)
        self.gives(seen_fits=ra.max_parameters(8 * H100.memory_bytes, SLIM) / 1e9, seen_bits=8)
        self.gives(seen_halves=(SLIM.parameter.itemsize, SLIM.gradient.itemsize))
        self.gives(seen_moments=sum(dtype.itemsize for dtype in SLIM.optimizer_state))
        self.gives(seen_bytes=ra.bytes_per_parameter(LOWEST))

    def model(self) -> None:
        state = wren.STATE_BYTES
        speed = wren.DEVICES * wren.MFU * H100.peak_flops[BF16]
        flops = fc.training_flops(wren.PARAMETERS, wren.TOKENS)
        self.gives(wren_state_gb=state / 1e9, wren_free_gb=(H100.memory_bytes - state) / 1e9)
        self.gives(wren_run_flops=flops, wren_speed=speed)
        whole = 3 * wren.SEQUENCES * sum(quizzes.parts_of(wren.WREN).values())
        self.gives(wren_full_step=whole, wren_full_hours=wren.HOURS * whole / wren.STEP_FLOPS)

    def exercises(self) -> None:
        ridge = ra.accelerator_intensity(H100, BF16)
        # 2mkn FLOPs for kn bytes of int8.
        self.gives(ex_half_rows=math.ceil(ridge * torch.int8.itemsize / 2))

        weights = wren.PARAMETERS * BF16.itemsize
        self.gives(ex_bandwidth=H100.memory_bandwidth, ex_weights=weights)
        self.gives(ex_rate=H100.memory_bandwidth / weights)
        model = wren.WREN
        sizes = [2, model.num_layers, model.context_length, model.d_model, BF16.itemsize]
        cache = math.prod(sizes)  # a key and a value, for each layer and token
        self.gives(ex_cache=(sizes, cache), ex_cache_share=100 * cache / weights)
