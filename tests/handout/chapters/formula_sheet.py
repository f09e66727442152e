"""The formula sheet: each formula with digits, compared with the functions of the reference."""

import math
from dataclasses import replace

import torch

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import linear, precision
from grader.solutions.reference import optimizers as op
from grader.solutions.reference import resource_accounting as ra
from handout.site import calculator_formulas, micro_batch, quizzes, wren
from tests.handout.chapters import c02_precision as c02
from tests.handout.chapters import c08_optimizers as c08
from tests.handout.chapters import c12_activation_checkpointing as c12
from tests.handout.page_figures import Figures, n

BF16 = torch.bfloat16
H100 = ra.H100_SXM
OTHER = replace(wren.WREN, num_heads=12, kv_heads=3, head_width=96)


class Chapter(Figures):
    def numbers(self) -> None:
        holds, m = list(c02.formula_holds()), precision.float_spec(torch.float16).mantissa_bits
        self.formula("decoding", r"2^{E - \text{bias}} \cdot (1 + M / 2^m)", holds)
        self.formula("bias", "2^{e - 1} - 1", holds)
        x = 1 + torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        error = (x.half().double() - x).abs() / x
        self.formula("rounding", "2^{-(m + 1)}", [bool((error <= 2.0 ** -(m + 1)).all())])

    def flops(self) -> None:
        forward, train = fc.linear_flops(1, 1, 1), fc.training_flops(1, 1)
        again = fc.training_flops(1, 1, recompute_forward=True)
        self.gives(rules=", ".join(n(f"{rule}N") for rule in (forward, train, again)))
        self.formula("product", "2mkn", [fc.matmul_flops((3, 5), (5, 7)) == 2 * 3 * 5 * 7])
        config, batch = wren.WREN, 3
        layers, d, tokens = config.num_layers, config.d_model, config.context_length
        inside = layers * (4 * d**2 + 2 * d * config.d_ff)
        other, q, kv = OTHER, OTHER.query_width, OTHER.kv_width
        parts = fc.transformer_forward_flops(other, batch, tokens)
        scores = parts["attention_scores"] + parts["attention_values"]
        self.formula("scores", "4BT²q", [scores == layers * 4 * batch * tokens**2 * q])
        general = 2 * d * layers * (q + kv + config.d_ff)
        vocabulary = config.vocab_size * d
        holds = [general + vocabulary == ra.transformer_parameters(other)]
        holds += [inside + vocabulary == wren.PARAMETERS, inside == 12 * d**2 * layers]
        gated = ra.transformer_parameters(replace(other, gated_ffn=True)) - vocabulary
        wide = general + 2 * d * layers * (1.5 - 1) * config.d_ff
        self.formula("gated_matrices", "1.5 d_ff", [gated == wide])
        untied = ra.transformer_parameters(replace(other, tied_embeddings=False))
        self.formula("untied", "2Vd", [untied == general + 2 * vocabulary])
        self.formula("usual_ff", "d_ff = 4d", [config.d_ff == 4 * d])
        self.formula("parameters", "2dL · (q + kv + d_ff) + Vd ≈ 12d²L", holds)
        self.formula("square", "n / 3", [ra.matmul_intensity(600, 600, 600, BF16) == 600 / 3])
        run = 70e9, 15e12, H100, BF16, 1024, 0.5
        days = 6 * run[0] * run[1] / (H100.peak_flops[BF16] * 0.5 * 1024) / 86_400
        holds = math.isclose(days, ra.training_days(*run), rel_tol=1e-12)
        self.formula("days", "6ND / (peak · MFU · devices · 86,400)", holds)
        best, trained = ra.compute_optimal(1e22)
        holds = [math.isclose(best, math.sqrt(1e22 / 120), rel_tol=1e-12)]
        holds.append(math.isclose(trained, 20 * best, rel_tol=1e-12))
        self.formula("best", "N = √(C / 120), D = 20N", holds)
        self.formula("ring", "2(n − 1)/n", quizzes.ring(1, torch.int8, 8) == 2 * (8 - 1) / 8)

    def memory(self) -> None:
        master = calculator_formulas.MASTER
        self.gives(adamw_bytes=(4, 4, 8, ra.bytes_per_parameter(wren.RECIPE)))
        self.gives(master_bytes=(2, 2, 8, 4, ra.bytes_per_parameter(master)))
        unit = wren.WREN.context_length * wren.WREN.d_model
        pure, autocast = (
            micro_batch.layer_bytes(wren.WREN, wren.WREN.context_length, recipe) // unit
            for recipe in (master, wren.RECIPE)
        )
        self.gives(copy_bytes=wren.PEAK.copies // wren.PARAMETERS, layer_pure=pure)
        self.gives(layer_autocast=autocast, logit_bytes=micro_batch.LOGIT)
        other, q, kv = OTHER, OTHER.query_width, OTHER.kv_width
        d, ff = other.d_model, other.d_ff
        kept, gated = (
            micro_batch.layer_bytes(config, 1, master)
            for config in (other, replace(other, gated_ffn=True))
        )
        self.formula("layer_today", "8d + 4(q + kv + d_ff)", [kept == 8 * d + 4 * (q + kv + ff)])
        self.formula("gated_width", "2d_ff", [gated - kept == (8 - 4) * ff])
        sparse = replace(other, experts=8, active_experts=2)
        routed = 8 * d + 4 * (q + kv + 2 * ff) + 2 * 4 * d
        holds = [micro_batch.layer_bytes(sparse, 1, master) == routed]
        self.formula("routed", "4d", holds)
        cache = micro_batch.cache_bytes(other, 1, BF16)
        self.formula("cache", "4 · kv · L", [cache == 4 * kv * other.num_layers])
        holds = [c12.measured(**sizes) == c12.by_formula(**sizes) for sizes in c12.SMALL]
        self.formula("layer_scores", "sbh · (34 + 5as / h)", holds)
        k, gelu = 8, torch.nn.GELU
        alive = c12.units(gelu, k) + c12.units(gelu, layers=c12.LAYERS // k)
        self.formula("segments", "k + 2L / k", alive == k + 2 * c12.LAYERS / k)
        at_least = min(range(1, 100), key=lambda k: k + 2 * 128 / k)
        self.formula("best_segments", "k = √(2L)", [at_least == math.sqrt(2 * 128)])

    def learning(self) -> None:
        epsilon, at = 1e-4, torch.tensor(0.7, dtype=torch.float64)
        slope = ((at + epsilon).sin() - (at - epsilon).sin()) / (2 * epsilon)
        self.formula("difference", "2ε", [abs(slope - at.cos()) < 1e-8])
        largest = linear.Linear(10_000, 100).weight.detach().abs().max()
        self.formula("truncated", "3σ", [2.9 < largest * math.sqrt(10_000) <= 3])
        rates = [op.lr_cosine_schedule(it, 1.0, 0.0, 0, 8) for it in range(9)]
        by_hand = [(1 + math.cos(math.pi * it / 8)) / 2 for it in range(9)]
        holds = [abs(a - b) < 1e-12 for a, b in zip(rates, by_hand, strict=True)]
        self.formula("cosine", "(1 + cos πx) / 2", holds)
        write, fail = 2.0, 900.0
        lost = min(range(1, 1000), key=lambda t: write / t + t / (2 * fail))
        self.formula("young", "√(2wM)", [lost == math.sqrt(2 * write * fail)])

    def adamw(self) -> None:
        options = {"lr": 0.1, "betas": (0.9, 0.75), "eps": 0.01, "weight_decay": 0.5}
        gradients = [2.0, -0.5, 3.0]
        got = c08.steps(lambda p: op.AdamW(p, **options), gradients)
        same = c08.same(got, c08.adamw(gradients, 0.1, 0.9, 0.75, 0.01, 0.5))
        self.formula("betas", "β₁, β₂", same)
        moments = "p ← p − lr · λ · p; m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²"
        self.formula("adamw_moments", moments, same)
        step = "p ← p − lr · m̂ / (√v̂ + ε), m̂ = m / (1 − β₁ᵗ), v̂ = v / (1 − β₂ᵗ)"
        self.formula("adamw_step", step, same)
