"""flop_formulas: FLOPs of matrix products, layers, models and training runs. Handout §4.1."""

import pytest

from tests import expect

GPT2_SMALL = {
    "vocab_size": 50257,
    "context_length": 1024,
    "num_layers": 12,
    "d_model": 768,
    "num_heads": 12,
    "d_ff": 3072,
}


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
    expect.value(
        got,
        expected,
        of="matmul_flops",
        inputs=f"a {a}, b {b}",
        hint="2 · K per element of the result",
    )


def test_matmul_refuses_what_torch_refuses(student):
    """(2, 3) @ (2, 3) is refused, and (2, 3) @ (3, 2) is not."""
    with expect.right_call("(2, 3) @ (3, 2)"):
        expect.value(student.flop_counting.matmul_flops((2, 3), (3, 2)), 24, of="matmul_flops")
    with expect.raises(
        (ValueError, RuntimeError), of="matmul_flops", when="the sizes that are summed over differ"
    ):
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
        expect.value(
            got,
            expected,
            of="linear_flops",
            inputs=f"10, 3, 4, {options}",
            hint="the result includes the forward pass",
        )


def test_mlp_of_the_example(student):
    """64 rows through (32, 32, 16): 196,608 forward, 458,752 with the backward pass.

    That is 0.778 of 6 · parameters · rows.
    """
    for backward, expected in [(False, 196_608), (True, 458_752)]:
        got = student.flop_counting.mlp_flops(64, (32, 32, 16), backward=backward)
        expect.value(got, expected, of="mlp_flops", inputs=f"64, (32, 32, 16), backward={backward}")


def test_transformer_of_the_example(student):
    """2 layers of d_model 8 with 3 sequences of 5 tokens, and GPT-2 small.

    One full sequence takes GPT-2 small 291.6 GFLOPs.
    """
    module = student.flop_counting
    tiny = module.TransformerConfig(
        vocab_size=100, context_length=16, num_layers=2, d_model=8, num_heads=2, d_ff=32
    )
    expected = {
        "qkv": 11_520,
        "attention_scores": 2_400,
        "attention_values": 2_400,
        "attention_output": 3_840,
        "ffn": 30_720,
        "lm_head": 24_000,
    }
    got = module.transformer_forward_flops(tiny, 3, 5)
    expect.value(
        got,
        expected,
        of="transformer_forward_flops",
        inputs="batch 3, seq 5, 2 layers of d_model 8",
    )
    got = module.transformer_forward_flops(module.TransformerConfig(**GPT2_SMALL), 1, 1024)
    expect.value(
        sum(got.values()),
        291_648_307_200,
        of="transformer_forward_flops",
        inputs="GPT-2 small, one sequence of 1024",
    )


def test_training_of_the_example(student):
    """70 billion parameters and 15 trillion tokens take 6.3e24 FLOPs.

    With full recomputation they take 8.4e24.
    """
    n, d = 70 * 10**9, 15 * 10**12
    for recompute, expected in [(False, 63 * 10**23), (True, 84 * 10**23)]:
        got = student.flop_counting.training_flops(n, d, recompute_forward=recompute)
        expect.value(
            got, expected, of="training_flops", inputs=f"{n}, {d}, recompute_forward={recompute}"
        )
