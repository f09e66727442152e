"""Chapter 12: what autograd keeps, what segments keep, and the cost of recomputing activations."""

from fractions import Fraction

import torch
import torch.nn.functional as F
from torch import nn

from grader.solutions.reference import activation_checkpointing as ac
from grader.solutions.reference import flop_counting as fc
from grader.solutions.reference import resource_accounting as ra
from handout.site import calculator_formulas, micro_batch, quizzes, wren
from tests.handout.page_figures import Figures, n

FP32, BF16 = torch.float32, torch.bfloat16
LAYERS, WIDTH, BATCH = 16, 64, 8
SEGMENTS = (1, 2, 4, 8, 16)
GPT3 = {"s": 2048, "b": 1, "h": 12288, "a": 96}
GPT3_LAYERS = 96
SMALL = [{"s": 128, "b": 1, "h": 64, "a": 8}, {"s": 32, "b": 3, "h": 64, "a": 2}]


def units(activation, segments=None, layers=LAYERS):
    """The number of activations that these layers keep after a forward pass, as counted."""
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), activation()) for _ in range(layers)]
    model = ac.CheckpointedSequential(blocks, segments) if segments else nn.Sequential(*blocks)
    x = torch.rand(BATCH, WIDTH)
    kept, over = divmod(
        ac.saved_activation_bytes(lambda: model(x), model.parameters()), x.numel() * FP32.itemsize
    )
    assert over == 0
    return kept


def alive_at_once(segments):
    """The number of activations in memory at the start of the backward pass.

    These are the inputs of the segments, and what the last segment keeps when it runs again.
    """
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(LAYERS)]
    model, x, inputs = ac.CheckpointedSequential(blocks, segments), torch.rand(8, 32), []
    last = blocks[-(LAYERS // segments) :]
    last[0].register_forward_pre_hook(lambda _, given: inputs.append(given[0]))

    def run():
        model(x)
        return nn.Sequential(*last)(inputs[0].detach())

    kept, over = divmod(
        ac.saved_activation_bytes(run, model.parameters()), x.numel() * x.element_size()
    )
    assert over == 0
    return kept


def segment_lengths(layers, segments):
    """The lengths of the reference's segments, observed in the backward pass.

    The backward pass runs the segments again, the last one first.
    """
    calls = []
    blocks = [nn.Tanh() for _ in range(layers)]
    for number, block in enumerate(blocks):
        block.register_forward_hook(lambda *_, number=number: calls.append(number))
    y = ac.CheckpointedSequential(blocks, segments)(torch.rand(2, requires_grad=True))
    calls.clear()
    y.sum().backward()
    ends = [i for i, number in enumerate(calls, 1) if i == len(calls) or calls[i] != number + 1]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def by_formula(s, b, h, a):
    """Bytes of a transformer layer's activations by Korthikanti et al."""
    return s * b * h * (34 + 5 * a * s / h)


def transformer_layer(s, b, h, a, dropout=True, selective=False):
    """A function that computes such a layer in bfloat16, and the layer's parameters.

    With `selective`, only what lies between q, k, v and the output projection is checkpointed.
    """
    square = [(torch.randn(h, h) / h).to(BF16).requires_grad_() for _ in range(4)]
    up, down = (
        torch.randn(*shape).to(BF16).div(h).requires_grad_() for shape in [(4 * h, h), (h, 4 * h)]
    )
    gain = torch.ones(h, dtype=BF16, requires_grad=True)
    x = torch.randn(b, s, h).to(BF16).requires_grad_()

    def drop(t):  # keeps a mask of one byte per number, as dropout does on a GPU
        return torch.native_dropout(t, 0.1, True)[0] if dropout else t

    def attention(q, k, v):
        return drop(torch.softmax(q @ k.transpose(-1, -2), -1)) @ v

    def layer():
        normed = F.layer_norm(x, (h,), gain)
        q, k, v = (F.linear(normed, w).view(b, s, a, h // a).transpose(1, 2) for w in square[:3])
        mixed = ac.checkpoint(attention, q, k, v) if selective else attention(q, k, v)
        middle = x + drop(F.linear(mixed.transpose(1, 2).reshape(b, s, h), square[3]))
        wide = F.gelu(F.linear(F.layer_norm(middle, (h,), gain), up))
        return middle + drop(F.linear(wide, down))

    return layer, [*square, up, down, gain]


def measured(s, b, h, a, **options):
    """The same bytes, as the reference counts them for such a layer in bfloat16.

    The norms' means and deviations are left out.
    """
    # Two norms, with one mean and one deviation per token each.
    norms = 2 * 2 * s * b * BF16.itemsize
    return ac.saved_activation_bytes(*transformer_layer(s, b, h, a, **options)) - norms


def training_flops(s, b, h, a, **options):
    """FLOPs of such a layer, forward and backward, as the reference counts them."""
    layer, _ = transformer_layer(s, b, h, a, **options)
    with fc.FlopCounter() as counter:
        layer().sum().backward()
    return counter.total


class Chapter(Figures):
    def beginning(self) -> None:
        self.plain = {activation: units(activation) for activation in (nn.GELU, nn.SiLU, nn.ReLU)}
        self.kept = {k: units(nn.GELU, k) for k in SEGMENTS}
        self.own = {k: units(nn.GELU, layers=LAYERS // k) for k in SEGMENTS}

    def layers(self) -> None:
        self.gives(fp32_bytes=FP32.itemsize)
        gelu, relu = self.plain[nn.GELU], self.plain[nn.ReLU]
        assert gelu == self.plain[nn.SiLU]
        self.gives(gelu_units=(2, LAYERS, gelu), relu_units=(LAYERS, 1, relu))
        segments = 4
        self.gives(segments=segments, segment_layers=LAYERS // segments)
        for k in (LAYERS, segments):
            assert units(nn.SiLU, k) == self.kept[k]
            self.gives(checkpointed_row=(self.kept[k], units(nn.ReLU, k)))
        self.each = (gelu, self.kept[LAYERS])
        self.each_relu = (relu, units(nn.ReLU, LAYERS))
        self.gives(gelu_halves=self.each, relu_stays=self.each_relu, bet_relu=relu)

    def segments(self) -> None:
        alive = {k: self.kept[k] + self.own[k] for k in SEGMENTS}
        holds = [alive[k] == k + 2 * LAYERS / k for k in SEGMENTS]
        self.formula("alive_formula", r"k + \frac{2L}{k}", holds)
        assert all(alive_at_once(k) == alive[k] - 1 for k in SEGMENTS), "exactly one fewer"
        k, best, small = 3.0, (2 * LAYERS) ** 0.5, 1e-4
        above, below = (at + 2 * LAYERS / at for at in (k + small, k - small))
        slope = (above - below) / (2 * small)
        self.formula("derivative", "1 − 2L/k²", abs(slope - (1 - 2 * LAYERS / k**2)) < 1e-6)
        self.formula("best_segments", "k = √(2L)", abs(1 - 2 * LAYERS / best**2) < 1e-12)
        self.formula("least_alive", "2k", abs(best + 2 * LAYERS / best - 2 * best) < 1e-12)
        deeper = 100
        self.gives(best_k=best, best_alive=2 * best, deeper=deeper)
        self.gives(more_memory=(2 * deeper * LAYERS) ** 0.5 / best)
        again = sum(range(1, LAYERS + 1))
        self.gives(deep=1024, halvings=quizzes.depth(1024), squared=f"L{n('²')}")
        self.gives(from_the_start=(LAYERS, LAYERS, LAYERS + 1, 2, LAYERS + again))
        assert alive_at_once(1) == self.plain[nn.GELU], "one segment: as much as a plain run"
        root = round(LAYERS**0.5)
        self.gives(root_alive=(self.kept[root], self.own[root], alive[root]))
        self.gives(plain_units=self.plain[nn.GELU], layers=LAYERS, segment_counts=SEGMENTS)
        self.gives(alive=[alive_at_once(k) for k in SEGMENTS])
        count, parts = 7, 3
        short, same, long = sorted(segment_lengths(count, parts))
        assert short == same
        self.gives(uneven_layers=count, uneven_segments=parts, short_segment=short)
        self.gives(long_segment=long)
        # Reported in the paper's abstract.
        self.gives(story_layers=1000, story_before=48, story_after=7, story_time=30)

    def cost(self) -> None:
        forward = fc.linear_flops(1, 1, 1)
        plainly, again = fc.training_flops(1, 1), fc.training_flops(1, 1, recompute_forward=True)
        more = Fraction(again, plainly)
        self.gives(forward_rule=forward, backward_rule=plainly - forward, plain_rule=plainly)
        self.gives(recomputed_rule=again)
        self.gives(recompute_factor=f"× {n(more.numerator)}/{n(more.denominator)}")
        full, run = 0.5, (70e9, 15e12, ra.H100_SXM, 1024)
        self.gives(mfu=full, useful_mfu=full * plainly / again, days=quizzes.days(*run, full))
        self.gives(recomputed_days=quizzes.days(*run, full * plainly / again))
        # Reported by Chowdhery et al. 2022, section 4.1.
        self.gives(palm_hfu=57.8, palm_mfu=46.2)

    def transformer(self) -> None:
        # Bytes per score: two for softmax's result, one for the mask, and two for dropout's result.
        half = torch.float16.itemsize
        self.gives(score_bytes=(half, torch.bool.itemsize, half), result_bytes=half)
        holds = [measured(**sizes) == by_formula(**sizes) for sizes in SMALL]
        self.formula("layer_formula", r"sbh \left(34 + \frac{5as}{h}\right)", holds)
        s, b, h, a = GPT3.values()
        per_token = BF16.itemsize
        self.gives(scores_growth=f"s{n('²')}", token_bytes=per_token)
        assert 34 / per_token == 17
        first, second = 32, 2
        for sizes in SMALL:
            found = measured(**sizes, dropout=False) / (sizes["s"] * sizes["b"] * sizes["h"])
            assert found == first + second * sizes["a"] * sizes["s"] / sizes["h"]
        self.gives(first_term=first, second_factor=second)
        layer = by_formula(**GPT3)
        sizes = layer, by_formula(s, b, h, 0), per_token * s * b * h
        everything, fused, inputs = (GPT3_LAYERS * size for size in sizes)
        memory = ra.H100_SXM.memory_bytes
        assert memory < fused < 3 * memory < everything
        self.gives(everything_gb=everything / 1e9, tokens=s, width=h, heads=a)
        self.gives(gpt3_layers=GPT3_LAYERS, batch=b, second_term=5 * a * s / h)
        self.gives(layer_gb=layer / 1e9, fused_gb=fused / 1e9, inputs_gb=inputs / 1e9)

    def selective(self) -> None:
        """Recomputing only the scores: bytes and FLOPs, measured on small layers."""
        again, layer_flops, shares = [], [], []
        for sizes in SMALL:
            s, b, h, a = sizes.values()
            assert measured(**sizes, selective=True) == by_formula(s, b, h, 0)
            plainly = training_flops(**sizes)
            more = training_flops(**sizes, selective=True) - plainly
            again.append(more == 4 * b * s**2 * h)
            layer_flops.append(plainly == 72 * b * s * h**2 + 12 * b * s**2 * h)
            shares.append(abs(more / plainly - s / (18 * h + 3 * s)) < 1e-12)
        self.formula("selective_flops", "4bs²h", again)
        self.formula("layer_flops", "72bsh² + 12bs²h", layer_flops)
        self.formula("selective_ratio", "s / (18h + 3s)", shares)
        s, _, h, a = GPT3.values()
        scores = 5 * a * s // h
        cost = s / (18 * h + 3 * s)
        self.gives(selective_share=f"{n(scores)} of {n(34 + scores)}")
        self.gives(selective_percent=100 * scores / (34 + scores), selective_cost=100 * cost)
        # Reported by Korthikanti et al.
        self.gives(reported_cost=2.7)
        reported = s / (6 * h + s)
        assert abs(reported / cost - 3) < 1e-12
        self.formula("reported_ratio", "s / (6h + s)", f"{100 * reported:.1f}" == "2.7")

    def autocast(self) -> None:
        """A layer of Wren under autocast, by the function that a real step is compared with."""
        unit = wren.WREN.context_length * wren.WREN.d_model
        pure = calculator_formulas.SLIM

        def per_unit(recipe, projections=1):
            tokens = wren.WREN.context_length
            kept = micro_batch.layer_bytes(wren.WREN, tokens, recipe, projections=projections)
            assert kept % unit == 0
            return kept // unit

        assert wren.WREN.d_ff == 4 * wren.WREN.d_model, "a layer of the usual shape"
        rows = [
            ((2, 2), (4, 4)),  # the norms' inputs
            ((6, 2), (6, 2)),  # q, k and v; attention's result
            ((2, 8, 8), (2, 8, 8)),  # the feed-forward network
        ]
        shared = [sum(sum(row[column]) for row in rows) for column in (0, 1)]
        casts = [(2, 2), (2, 6)]  # of the input of q, k and v, with one matrix and with three
        for recipe, kept, cast in zip((pure, wren.RECIPE), shared, casts, strict=True):
            assert [kept + size for size in cast] == [per_unit(recipe, 1), per_unit(recipe, 3)]
        for row in (rows[0], casts, *rows[1:]):
            self.gives(part_row=row)
        recipes = (pure, wren.RECIPE)
        for recipe in recipes:
            self.gives(part_sum=(per_unit(recipe), per_unit(recipe, 3)))
        checkpoints = [
            micro_batch.checkpoint_bytes(wren.WREN, wren.WREN.context_length, recipe) // unit
            for recipe in recipes
        ]
        assert 3 * FP32.itemsize == micro_batch.LOGIT
        fp32 = FP32.itemsize
        self.gives(stream_bytes=wren.RECIPE.parameter.itemsize, part_checkpoint=checkpoints)
        self.gives(copy_bytes=wren.PEAK.copies / wren.PARAMETERS, head_parts=(fp32, BF16.itemsize))
        self.gives(logit_parts=(fp32, fp32, fp32, micro_batch.LOGIT), held_logits=BF16.itemsize)
        self.gives(wren_units=per_unit(wren.RECIPE), float32_units=2 * per_unit(pure))
        self.gives(seen_activations=f"{n(2)}BTdL", seen_too_small=per_unit(pure) // 2)

    def seen_model(self) -> None:
        """A model whose activations circulate with a wrong number, and the right ones."""
        layers, batch, tokens, width, heads = 32, 8, 2048, 4096, 32
        unit = layers * batch * tokens * width / 1e9
        ratio = heads * tokens / width
        self.gives(seen_layers=layers, seen_batch=batch, seen_tokens=tokens, seen_width=width)
        self.gives(seen_heads=heads, seen_gb=320, seen_right_gb=unit * (34 + 5 * ratio))
        self.gives(seen_without_gb=unit * (32 + 2 * ratio))

    def seen_elsewhere(self) -> None:
        root = round(LAYERS**0.5)
        self.gives(gelu_halves=self.each, layers=LAYERS, relu_stays=self.each_relu)
        self.gives(root_kept=self.kept[root])

    def model(self) -> None:
        layers = wren.WREN.num_layers
        sequence = micro_batch.peak(wren.WREN, 1, wren.RECIPE)
        inputs = layers * micro_batch.checkpoint_bytes(
            wren.WREN, wren.WREN.context_length, wren.RECIPE
        )
        hours = wren.HOURS * quizzes.AGAIN

        def fits(segments):
            """The largest number of sequences whose peak fits on the device."""

            def is_too_many(number):
                peak = micro_batch.peak(wren.WREN, number, wren.RECIPE, segments=segments)
                return peak.total > ra.H100_SXM.memory_bytes

            return quizzes.first(is_too_many) - 1

        self.gives(wren_sequence_gb=sequence.layers / 1e9)
        self.gives(wren_logits_gb=(sequence.head + sequence.logits) / 1e9)
        self.gives(wren_state_gb=sequence.states / 1e9)
        self.gives(wren_device_gb=ra.H100_SXM.memory_bytes // 10**9)
        self.gives(wren_copies_gb=sequence.copies / 1e9, wren_fits=fits(0))
        self.gives(wren_peak_gb=wren.PEAK.total / 1e9, wren_inputs_gb=inputs / 1e9)
        self.gives(wren_fits_checkpointed=fits(layers), wren_recomputed_hours=hours)

    def exercises(self) -> None:
        x, y = (torch.rand(5, requires_grad=True) for _ in range(2))
        calls = (lambda: x + y, lambda: x * y, x.tanh, x.sum, x.relu)
        kept = [ac.saved_activation_bytes(call, []) // (5 * FP32.itemsize) for call in calls]
        assert kept == [0, 2, 1, 0, 1]
        layers, segments = 36, 6
        each = 2 * layers // segments
        self.gives(ex_layers=layers, ex_segments=segments, ex_plain=(2, layers, 2 * layers))
        self.gives(ex_alive=(segments, each, segments + each))
        self.gives(ex_best=(2 * layers, (2 * layers) ** 0.5), ex_nine=9)
        self.gives(ex_alive_nine=(9, 2 * layers // 9, 9 + 2 * layers // 9))
        # Per token and feature of width h, with d_ff = 4h: the q, k and v products take 3 · 2h².
        self.gives(ex_ratio=4, ex_gelu_bytes=4 * BF16.itemsize)
        self.gives(ex_qkv_flops=n(f"{3 * fc.linear_flops(1, 1, 1)}h²"))
        self.gives(ex_qkv_bytes=3 * BF16.itemsize)
        self.gives(ex_ffn_numbers=(1, 4, 4))
        second = 5 * GPT3["a"] * GPT3["s"] / GPT3["h"]
        assert second > 34
        self.gives(ex_growth=(2 * 34 + 4 * second) / (34 + second))
