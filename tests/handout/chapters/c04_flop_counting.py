"""Chapter 4: FLOPs from formulas, and FLOPs counted at run time."""

from dataclasses import replace
from fractions import Fraction

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import quizzes, wren
from tests.handout.page_figures import Figures, n

GPT2 = fc.TransformerConfig(50257, 1024, 12, 768, 12, 4 * 768, tied_embeddings=True)
GPT3 = replace(  # Brown et al. (2020), table 2.1
    GPT2, context_length=2048, num_layers=96, d_model=12288, num_heads=96, d_ff=4 * 12288
)
H100 = ra.H100_SXM.peak_flops[torch.bfloat16]

# The MFU of GPT-3, Gopher, Megatron-Turing NLG and PaLM, by Chowdhery et al. (2022), table 3.
REPORTED_MFU = (0.213, 0.325, 0.302, 0.462)
GPT3_FLOPS = 3.14e23  # Brown et al. (2020), table D.1
KAPLAN_EXPONENT, CHINCHILLA_EXPONENT = 0.73, 0.50  # as Pearce and Song (2024) quote them
GPT4_FLOPS = 2.1e25  # Epoch AI's estimate, in its database of AI models
LLAMA_FLOPS = 3.8e25  # for 405e9 parameters and 15.6e12 tokens, by the Llama 3 paper, section 1
LLAMA_SIZE, LLAMA_TOKENS = 405 * 10**9, 156 * 10**11
EU_LIMIT = 1e25  # Regulation (EU) 2024/1689, article 51 (2)
US_LIMIT = 1e26  # Executive Order 14110, section 4.2 (b); revoked by order 14148, 20 January 2025


def ran(call):
    """The operators that a call runs."""
    with fc.OperatorLog() as log:
        call()
    return log.names


def products(names):
    multiply = {f"aten.{name}.default" for name in ("mm", "addmm", "bmm", "baddbmm", "mv", "dot")}
    return [name for name in names if name in multiply]


def attention(q, k, v, fused=True):
    """FLOPs of attention, forward and backward, counted as it runs."""
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    with fc.FlopCounter() as counter:
        y = F.scaled_dot_product_attention(q, k, v) if fused else (q @ k.mT).softmax(-1) @ v
        forward = counter.total
        y.backward(torch.ones_like(y))
    return forward, counter.total - forward


def scores_over_matrices(config, tokens):
    """FLOPs of the layers' scores and values over those of their matrices."""
    parts = fc.transformer_forward_flops(config, 1, tokens)
    return Fraction(
        parts["attention_scores"] + parts["attention_values"],
        parts["qkv"] + parts["attention_output"] + parts["ffn"],
    )


def forward_flops(config, tokens):
    """FLOPs of the forward pass of one sequence of this length."""
    longest = max(tokens, config.context_length)
    parts = fc.transformer_forward_flops(replace(config, context_length=longest), 1, tokens)
    return sum(parts.values())


def shorthand(config):
    return 12 * config.d_model**2 * config.num_layers


class Chapter(Figures):
    def before(self) -> None:
        low, high = min(REPORTED_MFU), max(REPORTED_MFU)
        middle = (low * high) ** 0.5
        assert abs(high / middle - middle / low) < 1e-9, "as far from either end"
        self.gives(mfu_low=low, mfu_high=high, mfu_factor=high / middle)
        tokens = wren.WREN.context_length
        now, then = forward_flops(wren.WREN, tokens), forward_flops(wren.WREN, 2 * tokens)
        self.gives(bet_tokens=2 * tokens, bet_growth=100 * (then / (2 * now) - 1))

    def layers(self) -> None:
        holds = [fc.matmul_flops((3, 5), (5, 7)) == 2 * 3 * 5 * 7]
        self.formula("product_formula", r"2 \cdot m \cdot k \cdot n", holds)
        self.gives(an_element=fc.matmul_flops((6, 3, 7), (6, 7, 5)) // (6 * 3 * 5 * 7))
        x, head = torch.ones(1, 4), wren.HEAD_WIDTH
        softmax = ran(lambda: (e := (x - x.amax()).exp()) / e.sum())
        self.gives(softmax_flops=len(softmax), score_flops=fc.matmul_flops((1, head), (head, 1)))
        # y, dW, dx
        for left, right in (("B × D", "D × K"), ("K × B", "B × D"), ("B × K", "K × D")):
            dims = {"B": 3, "D": 5, "K": 7}
            shapes = [[dims[name] for name in side.split(" × ")] for side in (left, right)]
            each = fc.matmul_flops(*shapes) // (3 * 5 * 7)
            self.gives(each_product=f"{left} times {right} | {n(each)}BDK")
        forward = fc.linear_flops(1, 1, 1)
        both = fc.linear_flops(1, 1, 1, backward=True)
        self.gives(forward_nb=forward, backward_nb=both - forward, both_nb=both)
        self.gives(recomputed=fc.training_flops(1, 1, recompute_forward=True))

    def two_layers(self) -> None:
        b, d, k = 64, 32, 16
        one, total = (fc.mlp_flops(b, (d, d, k), backward=both) for both in (False, True))
        square = 2 * b * d**2
        formula = r"\text{forward} &= 2BD^2 + 2BDK \\ \text{backward} &= 2BD^2 + 4BDK"
        holds = one == square + 2 * b * d * k and total - one == square + 4 * b * d * k
        self.formula("two_layer_formula", formula, holds)
        sizes = [(d, d), (d, k)]
        forward = [fc.linear_flops(b, *size) for size in sizes]
        weight = [
            fc.linear_flops(b, *size, backward=True, input_grad=False) - f
            for size, f in zip(sizes, forward, strict=True)
        ]
        given = fc.linear_flops(b, d, k, backward=True) - forward[1] - weight[1]
        self.gives(rows=b, sizes=(d, d, k), d=d, k=k, first_layer=(d, d), layer_two=2)
        self.gives(second_layer=(d, k))
        for one, two in (forward, weight):
            self.gives(part_row=(one, two, one + two))
        self.gives(input_row=(given, given))
        rule = fc.training_flops(d * d + d * k, b)
        self.gives(two_layer_flops=total, share_of_rule=total / rule)
        self.gives(two_layer_rule=f"{n(fc.training_flops(1, 1))}NB = {n(rule, ',')}")
        a, m = (4, 8, 16, 32), (32, 2)
        results = torch.empty(a, device="meta") @ torch.empty(m, device="meta")
        flops = fc.matmul_flops(a, m)
        self.gives(batched_shapes=(a, m), batched_results=(results.shape, results.numel()))
        self.gives(summed_products=a[-1], batched_flops=(2, a[-1], results.numel(), flops))
        self.gives(seen_batched_flops=131072, batched_total=flops)

    def transformer(self) -> None:
        tokens = GPT2.context_length
        parts = fc.transformer_forward_flops(GPT2, 1, tokens)
        total = sum(parts.values())
        configs = [(GPT2, 3, 1000), (fc.TransformerConfig(90, 30, 5, 12, 3, 20), 2, 7)]
        rows = [
            ("qkv", "L · 2 · BT · d · 3d", lambda c, L, d, bt: L * 2 * bt * d * 3 * d),
            ("attention_scores", "L · 2 · B · T² · d", lambda c, L, d, btt: L * 2 * btt * d),
            ("attention_output", "L · 2 · BT · d²", lambda c, L, d, bt: L * 2 * bt * d**2),
            ("ffn", "L · 2 · 2 · BT · d · d_ff", lambda c, L, d, bt: L * 2 * 2 * bt * d * c.d_ff),
            ("lm_head", "2 · BT · d · V", lambda c, L, d, bt: 2 * bt * d * c.vocab_size),
        ]
        for key, formula, value in rows:
            each = " each" if key == "attention_scores" else ""
            for c, b, t in configs:
                expected = value(c, c.num_layers, c.d_model, b * t ** (2 if each else 1))
                assert fc.transformer_forward_flops(c, b, t)[key] == expected, key
            flops, share = n(f"{parts[key] / 1e9:.1f}e9"), n(parts[key] / total * 100, ".1f")
            self.gives(part=f"{n(formula)}{each} | {flops}{each}, {share} %{each}")
        gated = fc.transformer_forward_flops(replace(GPT2, gated_ffn=True), 1, tokens)
        assert gated["ffn"] * 2 == parts["ffn"] * 3
        self.gives(gated_matrices=3, plain_matrices=2, gpt2_tokens=tokens)
        long = 16384
        longer = fc.transformer_forward_flops(replace(GPT2, context_length=long), 1, long)
        share = (longer["attention_scores"] + longer["attention_values"]) / sum(longer.values())
        self.long_sequences(configs)
        self.gives(scores_growth=f"T{n('²')}", long_tokens=long, long_share=share * 100)
        size = ra.transformer_parameters(GPT2)
        by_rule = fc.training_flops(size, tokens) // 3
        self.gives(gpt2_forward=total, forward_rule=fc.linear_flops(1, 1, 1))
        self.gives(forward_by_rule=(2, size, tokens, by_rule))
        self.gives(training_rule=fc.training_flops(1, 1))
        self.gives(rule_is_low_by=(1 - by_rule / total) * 100)

    def rule_and_shorthand(self) -> None:
        usual = replace(wren.WREN, d_ff=4 * wren.WREN.d_model)
        two, one = (ra.transformer_parameters(replace(usual, num_layers=depth)) for depth in (2, 1))
        self.formula("layer_size", "12d²", two - one == 12 * usual.d_model**2)
        embeddings = {c: c.vocab_size * c.d_model for c in (wren.WREN, GPT2, GPT3)}
        holds = [
            shorthand(c) + size == ra.transformer_parameters(c) for c, size in embeddings.items()
        ]
        self.formula("shorthand", "12d²L", holds)
        self.gives(wren_shorthand=shorthand(wren.WREN))
        self.gives(wren_shorthand_share=100 * shorthand(wren.WREN) / wren.PARAMETERS)
        self.gives(gpt2_shorthand=shorthand(GPT2))
        self.gives(gpt2_shorthand_share=100 * shorthand(GPT2) / ra.transformer_parameters(GPT2))
        self.gives(kaplan_exponent="C^{" + n(KAPLAN_EXPONENT) + "}")
        self.gives(chinchilla_exponent="C^{" + n(CHINCHILLA_EXPONENT, ".2f") + "}")

    def budgets(self) -> None:
        tokens = 300 * 10**9  # of GPT-3
        with_scores = 3 * forward_flops(GPT3, GPT3.context_length) * tokens / GPT3.context_length
        by_rule = fc.training_flops(LLAMA_SIZE, LLAMA_TOKENS)
        assert abs(by_rule / LLAMA_FLOPS - 1) < 0.01
        gpt3_by_rule = fc.training_flops(ra.transformer_parameters(GPT3), tokens)
        assert f"{gpt3_by_rule:.2e}" == f"{GPT3_FLOPS:.2e}"
        self.gives(gpt_three_budget=GPT3_FLOPS, gpt_three_with_scores=with_scores)
        self.gives(gpt_four=n("GPT-4"), gpt_four_budget=GPT4_FLOPS, llama_model=n("Llama 3 405B"))
        self.gives(llama_budget=LLAMA_FLOPS)
        self.gives(llama_by_rule=(fc.training_flops(1, 1), LLAMA_SIZE, LLAMA_TOKENS, by_rule))
        self.gives(eu_limit=EU_LIMIT, eu_article=51, us_limit=US_LIMIT)
        self.gives(us_revoked=n("January 2025"))
        size, other = ra.transformer_parameters(GPT3), fc.training_flops(wren.PARAMETERS, tokens)
        llama_tokens = 15 * 10**12  # by its model card
        llama = fc.training_flops(quizzes.multiplied(quizzes.LLAMA_70B), llama_tokens)
        deep = fc.TransformerConfig(0, 1024, 12, 1024, 16, 4096)
        self.gives(seen_layers=12, seen_width=1024, seen_size=n("150.9M"))
        self.gives(right_size=(12, 1024**2, 12, ra.transformer_parameters(deep)))
        self.gives(run_tokens=llama_tokens, seen_tokens=tokens, seen_gpt_three=100)
        self.gives(seen_llama=n("3 70B"), seen_llama_times=55)
        self.gives(right_gpt_three=fc.training_flops(size, tokens) / other)
        self.gives(right_llama=llama / other)

    def long_sequences(self, configs) -> None:
        """Scores and values of a layer against its matrices, with a feed-forward width of 4d."""
        scores, matrices = [], []
        for config, b, t in configs:
            usual = replace(config, d_ff=4 * config.d_model)
            whole = fc.transformer_forward_flops(usual, b, t)
            parts = {name: flops // usual.num_layers for name, flops in whole.items()}
            d = usual.d_model
            attention = parts["attention_scores"] + parts["attention_values"]
            scores.append(attention == 4 * b * t**2 * d)
            products = parts["qkv"] + parts["attention_output"] + parts["ffn"]
            matrices.append(products == 24 * b * t * d**2)
        self.gives(usual_ff=GPT2.d_ff // GPT2.d_model)
        self.formula("scores_layer", "4BT²d", scores)
        self.formula("matrices_layer", "24BTd²", matrices)
        holds = []
        for config in (GPT2, quizzes.LLAMA_70B, quizzes.MIXTRAL):
            one, none = (replace(config, num_layers=layers) for layers in (1, 0))
            of_layer = quizzes.multiplied(one) - quizzes.multiplied(none)
            equal = Fraction(of_layer, 2 * config.query_width)
            holds.append(scores_over_matrices(one, 1) * equal == 1)
        self.formula("scores_equal", "P / (2 · query_width)", holds)
        equal = scores_over_matrices(GPT2, GPT2.context_length) ** -1 * GPT2.context_length
        ratios = []
        for t in (512, 1024, 16384):
            ratio = scores_over_matrices(replace(GPT2, context_length=t), t)
            ratios.append(ratio == Fraction(t, 6 * GPT2.d_model))
        self.formula("scores_ratio", "T / (6d)", ratios)
        self.formula("long_means", "6d", equal == 6 * GPT2.d_model)
        self.gives(gpt2_equal=int(equal))

    def training(self) -> None:
        batch, tokens, mfu = 512, GPT2.context_length, 0.4
        one = sum(fc.transformer_forward_flops(GPT2, 1, tokens).values())
        passes = fc.linear_flops(1, 1, 1, backward=True) // fc.linear_flops(1, 1, 1)
        flops = passes * sum(fc.transformer_forward_flops(GPT2, batch, tokens).values())
        seconds = flops / (mfu * H100)
        self.gives(batch=batch, batch_tokens=tokens, step_flops=(passes, batch, one, flops))
        self.gives(step_mfu=mfu, h100_peak=H100, step_seconds=seconds)
        assert float(2**53 + 1) == 2**53
        self.gives(exact_floats=(2**53, 2**53))

    def as_they_run(self) -> None:
        x, flat, weight, bias = map(torch.ones, ((2, 3, 4), (3, 4), (5, 4), 5))
        assert products(ran(lambda: x @ weight.T)) == ["aten.mm.default"]
        self.gives(x_dimensions=x.dim())
        for rows in (x, flat):
            assert products(ran(lambda rows=rows: F.linear(rows, weight, bias))) == [
                "aten.addmm.default"
            ]
        swapped = x.transpose(0, 1)
        assert products(ran(lambda: swapped @ weight.T)) == ["aten.bmm.default"]
        biased = ran(lambda: F.linear(swapped, weight, bias))
        assert products(biased) == ["aten.bmm.default"]
        assert biased[-1] == "aten.add.Tensor"
        q, k = torch.ones(2, 3, 4), torch.ones(2, 5, 4)
        assert products(ran(lambda: torch.einsum("bqd,bkd->bqk", q, k))) == ["aten.bmm.default"]
        with torch.inference_mode():
            whole = ran(lambda: torch.einsum("bqd,bkd->bqk", q, k))
        assert whole == ["aten.einsum.default"]
        qkv = [torch.ones(2, 3, 4, 8, requires_grad=True) for _ in range(3)]
        with FlopCounterMode(display=False) as counter:
            F.scaled_dot_product_attention(*qkv).sum().backward()
        assert counter.get_total_flops() == 0

    def attention(self) -> None:
        b, h, q, k, d = 2, 3, 4, 5, 8
        query, key = torch.ones(b, h, q, d), torch.ones(b, h, k, d)
        wide = torch.ones(b, h, k, 2 * d)
        sdpa = F.scaled_dot_product_attention
        kernel = "aten._scaled_dot_product_flash_attention_for_cpu"
        assert ran(lambda: sdpa(query, key, key)) == [f"{kernel}.default"]
        for call in (lambda: sdpa(query, key, key, dropout_p=0.5), lambda: sdpa(query, key, wide)):
            assert products(ran(call)) == ["aten.bmm.default"] * 2
        with torch.inference_mode():
            assert ran(lambda: sdpa(query, key, key)) == [
                "aten.scaled_dot_product_attention.default"
            ]
            assert ran(lambda: query @ key.mT)[-1] == "aten.matmul.default"
            assert ran(lambda: F.linear(query, torch.ones(3, d)))[-1] == "aten.linear.default"
        assert f"{kernel}_backward.default" in ran(
            lambda: sdpa(query.requires_grad_(), key, key).sum().backward()
        )
        query, key = query.detach(), key.detach()
        product = fc.matmul_flops((b, h, q, d), (b, h, d, k))
        fused = [flops // product for flops in attention(query, key, key)]
        plain = [flops // product for flops in attention(query, key, key, fused=False)]
        self.gives(fused_backward=fused[1], fused_forward=fused[0], plain_backward=plain[1])
        self.gives(plain_forward=plain[0])
        forward, backward = attention(query, key, key)
        self.gives(batches=b, attention_heads=h, queries=q, keys=k, head_features=d)
        self.gives(attention_product=(2, b, h, q, k, d, product), attention_forward=forward)
        self.gives(attention_backward=backward)
        terms = b * h * q * k * d
        self.gives(forward_times=forward // terms, backward_times=backward // terms)
        self.gives(attention_terms=(b, h, q, k, d, terms))

    def model(self) -> None:
        tokens = wren.WREN.context_length
        parts = fc.transformer_forward_flops(wren.WREN, 1, tokens)
        total = sum(parts.values())

        def share(*names):
            return 100 * sum(parts[name] for name in names) / total

        self.gives(wren_forward=total, wren_ffn_share=share("ffn"))
        self.gives(wren_matrices_share=share("qkv", "attention_output"))
        self.gives(wren_scores_share=share("attention_scores", "attention_values"))
        self.gives(wren_head_share=share("lm_head"))
        self.gives(wren_step_flops=(6, wren.PARAMETERS, wren.STEP_TOKENS, wren.STEP_FLOPS))
        self.gives(wren_run_flops=fc.training_flops(wren.PARAMETERS, wren.TOKENS))
        self.gives(wren_step_with_scores=3 * wren.SEQUENCES * total)
        ratio = scores_over_matrices(wren.WREN, tokens)
        self.gives(wren_equal=int(tokens / ratio))

    def exercises(self) -> None:
        square, vector = (1000, 1000), (1000,)
        times_vector = fc.matmul_flops(square, vector)
        self.gives(ex_n=1000, ex_left=fc.matmul_flops(square, square) + times_vector)
        self.gives(ex_right=2 * times_vector, ex_frozen=fc.linear_flops(1, 1, 1))

        def share_of_rule(depth, width=8, rows=2):
            flops = fc.mlp_flops(rows, [width] * (depth + 1), backward=True)
            return Fraction(flops, fc.training_flops(depth * width**2, rows))

        holds = [share_of_rule(depth) == 1 - Fraction(1, 3 * depth) for depth in (1, 4, 34)]
        self.formula("ex_depth_share", "1 − 1/(3L)", holds)
        self.gives(ex_depth=quizzes.first(lambda depth: share_of_rule(depth) >= Fraction(99, 100)))
