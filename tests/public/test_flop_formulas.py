"""flop_formulas: FLOPs of matrix products, layers, models and training runs. Handout §4.1."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from kit import expect

GPT2_SMALL = {
    "vocab_size": 50257,
    "context_length": 1024,
    "num_layers": 12,
    "d_model": 768,
    "num_heads": 12,
    "d_ff": 3072,
}
TINY = {"vocab_size": 100, "context_length": 16, "num_layers": 2, "d_model": 8}
TINY |= {"num_heads": 2, "d_ff": 32}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((2, 3), (3, 4), 48),
        ((4, 8, 16, 32), (32, 2), 65_536),
        ((5,), (5,), 10),
        ((7, 2, 3), (3,), 84),
    ],
)
def test_matmul_of_the_example(student, a, b, expected):
    """2 · K per element of the result: (4, 8, 16, 32) @ (32, 2) has 1,024 elements and K = 32."""
    got = student.flop_counting.matmul_flops(a, b)
    k = a[-1]
    hints = {
        expected // 2: "a multiply and an add are two FLOPs",
        expected // (2 * k) * (2 * k - 1): "count 2 · K for each element of the result",
        **({expected * k: "a vector is summed over: it adds no rows or columns"} if k < 9 else {}),
    }
    expect.value(got, expected, of="matmul_flops", inputs=f"a {a}, b {b}", hints=hints)


def test_matmul_refuses_what_torch_refuses(student):
    """(2, 3) @ (2, 3) is refused, and (2, 3) @ (3, 2) is not."""
    with expect.right_call("(2, 3) @ (3, 2)"):
        expect.value(student.flop_counting.matmul_flops((2, 3), (3, 2)), 24, of="matmul_flops")
    refusals, when = (ValueError, RuntimeError), "the sizes that are summed over differ"
    with expect.raises(refusals, of="matmul_flops", when=when):
        student.flop_counting.matmul_flops((2, 3), (2, 3))


def test_linear_of_the_example(student):
    """10 tokens, 3 → 4 features: 240 forward, 720 with the backward pass.

    If the input needs no gradient, it is 480.
    """
    for options, expected in [
        ({}, 240),
        ({"backward": True}, 720),
        ({"backward": True, "input_grad": False}, 480),
    ]:
        got = student.flop_counting.linear_flops(10, 3, 4, **options)
        hints = {
            240: {120: "a multiply and an add are two FLOPs", 280: "the layer has no bias"},
            720: {
                480: "the result has the forward pass and both gradients: three products",
                240: "the result has the forward pass and both gradients: three products",
            },
            480: {
                720: "input_grad=False leaves out the gradient of the input",
                240: "the forward pass and the weight's gradient are left",
            },
        }[expected]
        expect.value(got, expected, of="linear_flops", inputs=f"10, 3, 4, {options}", hints=hints)


def test_mlp_of_the_example(student):
    """64 rows through (32, 32, 16): 196,608 forward, 458,752 with the backward pass.

    That is 0.778 of 6 · parameters · rows.
    """
    for backward, expected in [(False, 196_608), (True, 458_752)]:
        inputs = f"64, (32, 32, 16), backward={backward}"
        got = student.flop_counting.mlp_flops(64, (32, 32, 16), backward=backward)
        hints = {
            589_824: "the first layer's input is data: it needs no gradient",
            524_288: "the first layer needs no gradient of its input, the last one does",
            393_216: "all layers but the first need the gradient of their input",
            65_536: "each pair of neighbouring sizes is a layer",
        }
        expect.value(got, expected, of="mlp_flops", inputs=inputs, hints=hints)


def test_transformer_of_the_example(student):
    """2 layers of d_model 8 with 3 sequences of 5 tokens, and GPT-2 small.

    One full sequence takes GPT-2 small 291.6 GFLOPs.
    """
    module = student.flop_counting
    expected = {
        "qkv": 11_520,
        "attention_scores": 2_400,
        "attention_values": 2_400,
        "attention_output": 3_840,
        "ffn": 30_720,
        "lm_head": 24_000,
    }
    got = module.transformer_forward_flops(module.TransformerConfig(**TINY), 3, 5)
    half, context = "every score counts: no discount for the causal mask", "seq is 5, not 16"
    embedding = "looking up an embedding is no product"
    hints = [
        ({**expected, "attention_scores": 1_440, "attention_values": 1_440}, half),
        ({**expected, "attention_scores": 1_200, "attention_values": 1_200}, half),
        ({**expected, "attention_scores": 1_440}, half),
        ({**expected, "attention_scores": 1_200}, half),
        ({**expected, "attention_scores": 7_680, "attention_values": 7_680}, context),
        ({**expected, "lm_head": 48_000}, embedding + ", and the head is in no layer"),
        ({**expected, "lm_head": 1_600}, "the head works on every token"),
        ({**expected, "ffn": 46_080}, "only a gated FFN has three matrices"),
    ]
    of, inputs = "transformer_forward_flops", "batch 3, seq 5, 2 layers of d_model 8"
    expect.value(got, expected, of=of, inputs=inputs, hints=hints)
    inputs = "GPT-2 small, one sequence of 1024"
    got = module.transformer_forward_flops(module.TransformerConfig(**GPT2_SMALL), 1, 1024)
    expect.value(sum(got.values()), 291_648_307_200, of="transformer_forward_flops", inputs=inputs)


def test_training_of_the_example(student):
    """70 billion parameters and 15 trillion tokens take 6.3e24 FLOPs.

    With full recomputation they take 8.4e24.
    """
    n, d = 70 * 10**9, 15 * 10**12
    for recompute, expected in [(False, 63 * 10**23), (True, 84 * 10**23)]:
        inputs = f"{n}, {d}, recompute_forward={recompute}"
        got = student.flop_counting.training_flops(n, d, recompute_forward=recompute)
        expect.value(got, expected, of="training_flops", inputs=inputs)
    got = student.flop_counting.training_flops(n + 1, d + 3)  # exact, and without recomputation
    expect.value(got, 6 * (n + 1) * (d + 3), of="training_flops", inputs=f"{n + 1}, {d + 3}")


# Two shapes, and the shape of torch.matmul's result; None where torch refuses them.
SHAPES = [
    ((3,), (3,), ()),
    ((4,), (3, 4), None),
    ((3,), (3, 4), (4,)),
    ((2, 3), (3,), (2,)),
    ((2, 3), (3, 4), (2, 4)),
    ((2, 3), (4, 3), None),
    ((2, 3), (1, 4), None),
    ((2, 1), (3, 4), None),
    ((3,), (5, 3, 4), (5, 4)),
    ((5, 2, 3), (3,), (5, 2)),
    ((2, 3), (5, 3, 4), (5, 2, 4)),
    ((5, 2, 3), (5, 3, 4), (5, 2, 4)),
    ((1, 2, 3), (5, 3, 4), (5, 2, 4)),
    ((5, 2, 3), (4, 3, 4), None),
    ((2, 5, 3, 4), (5, 4, 2), (2, 5, 3, 2)),
    ((2, 5, 3, 4), (2, 4, 2), None),
    ((6, 1, 4, 3), (5, 3, 2), (6, 5, 4, 2)),
    ((6, 1, 4, 3), (1, 5, 3, 2), (6, 5, 4, 2)),
]


@pytest.mark.parametrize(("a", "b", "result"), SHAPES)
def test_matmul_flops_of_many_shapes(student, a, b, result):
    """2 FLOPs for each element of the result and each number that is summed over."""
    if result is None:
        refusals, when = (ValueError, RuntimeError), f"{a} meets {b}"
        with expect.raises(refusals, of="matmul_flops", when=when):
            student.flop_counting.matmul_flops(a, b)
        return
    inputs = f"{a}, {b}; the result has shape {result}"
    got = student.flop_counting.matmul_flops(a, b)
    expect.value(got, 2 * a[-1] * math.prod(result), of="matmul_flops", inputs=inputs)


def test_counts_are_exact_however_large(student):
    """Sizes whose product is above 2⁶³ and above what a float can hold exactly."""
    side = 10**8 + 1
    got = student.flop_counting.matmul_flops((side, side), (side, side))
    expect.value(got, 2 * side**3, of="matmul_flops", inputs=f"two {side}×{side} matrices")
    got = student.flop_counting.linear_flops(side, side, side, backward=True)
    expect.value(got, 6 * side**3, of="linear_flops", inputs="the same with a backward pass")


@pytest.mark.parametrize("dims", [(5, 7), (32, 16, 8), (3, 9, 4, 2), (4, 4, 4, 4)])
def test_mlp_flops_agree_with_a_counter(student, dims):
    """torch's own counter gives the same counts, with and without the backward pass."""
    weights = [torch.ones(dims[i + 1], dims[i], requires_grad=True) for i in range(len(dims) - 1)]
    for backward in (False, True):
        with FlopCounterMode(display=False) as counter:
            x = torch.ones(6, dims[0])
            for weight in weights:
                x = (x @ weight.T).relu()
            if backward:
                x.sum().backward()
        options = {"backward": True} if backward else {}  # forward alone is the default
        inputs = f"batch 6, dims {dims}, {options}"
        got = student.flop_counting.mlp_flops(6, dims, **options)
        expect.value(got, counter.get_total_flops(), of="mlp_flops", inputs=inputs)


def test_transformer_flops_of_today(student):
    """The example with a head of keys for two of queries, heads of 6 features, or experts."""
    module = student.flop_counting
    experts = {"experts": 9, "active_experts": 2, "shared_experts": 1}
    for options, expected in [
        ({"kv_heads": 1}, {"qkv": 7_680, "attention_scores": 2_400, "attention_values": 2_400}),
        ({"head_width": 6}, {"qkv": 17_280, "attention_scores": 3_600, "attention_output": 5_760}),
        (experts, {"ffn": 92_160}),
        ({**experts, "gated_ffn": True}, {"ffn": 138_240}),
    ]:
        of, inputs = "transformer_forward_flops", f"the example with {options}"
        got = module.transformer_forward_flops(module.TransformerConfig(**TINY, **options), 3, 5)
        hints = {11_520: "keys and values have kv_heads heads, queries have num_heads"}
        for name, count in expected.items():
            expect.value(got[name], count, of=of, name=name, inputs=inputs, hints=hints)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_transformer_flops_of_other_models(student, gated, tied):
    """d_ff need not be 4 · d_model, a gated FFN has three matrices, and a tied LM head counts."""
    sizes = {**TINY, "d_ff": 24, "gated_ffn": gated, "tied_embeddings": tied}
    config = student.flop_counting.TransformerConfig(**sizes)
    inputs = f"2 layers, d_model 8, d_ff 24, gated {gated}, tied {tied}, 3 sequences of 5 tokens"
    got = student.flop_counting.transformer_forward_flops(config, 3, 5)
    of, matrices = "transformer_forward_flops", 3 if gated else 2
    expect.value(got["ffn"], 2 * (2 * 15 * matrices * 8 * 24), of=of, name="ffn", inputs=inputs)
    expect.value(got["lm_head"], 2 * 15 * 8 * 100, of=of, name="lm_head", inputs=inputs)
