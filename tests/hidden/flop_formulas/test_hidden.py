"""flop_formulas: the FLOPs of matrix products, alone and in layers, models and training runs.

A float with a whole value fails only the one test for integers. The oracle is the shape of
torch.matmul's result: 2 · K FLOPs per element. Layers and models are lists of such products.
Sizes are distinct, so that no two dimensions can be confused, and then also equal and 1: a program
may tell things apart by sizes that happen to differ.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from kit import expect
from kit.student import call_and_keep_inputs
from tests.hidden import sizes
from tests.probes import flop_counting as probes

CONFIG = ("vocab_size", "context_length", "num_layers", "d_model", "num_heads", "d_ff")
PARTS = ("qkv", "attention_scores", "attention_values", "attention_output", "ffn", "lm_head")
OF_PARTS = "transformer_forward_flops"


def check(got, expected, *, of, **facts):
    """Check a count of FLOPs. A float with a whole value is fine: another test checks the type."""
    expect.number(got, expected, of=of, tolerance=1e-12 * expected, **facts)


def flops_of(a, b):
    """The FLOPs of torch.matmul for these shapes: a vector is a row on the left, a column on the
    right.
    """
    *left, m, k = a if len(a) > 1 else (1, *a)
    *right, _, n = b if len(b) > 1 else (*b, 1)
    return 2 * m * k * n * math.prod(np.broadcast_shapes(left, right))


def check_matmul(student, pairs, hint):
    for a, b in pairs:
        got = student.flop_counting.matmul_flops(a, b)
        check(got, flops_of(a, b), of="matmul_flops", inputs=f"a {a}, b {b}", hint=hint)


# --- matmul_flops


@pytest.mark.harm("wrong number")
def test_matmul_of_vectors(student, rng):
    """A vector on the left is a row, one on the right is a column; two vectors give one number."""
    m, k, n = sizes(rng, 3)
    pairs = [((k,), (k,)), ((m, k), (k,)), ((k,), (k, n)), ((m, n, k), (k,)), ((k,), (m, k, n))]
    pairs += [((m, n, n, k), (k,)), ((k,), (n, m, k, n)), ((k, k), (k,)), ((k,), (k, k))]
    check_matmul(student, pairs, "which dimension of a vector is summed over?")


@pytest.mark.harm("wrong number")
def test_matmul_of_matrices_and_batches(student, rng):
    """Each m×k times k×n product takes 2 · m · k · n FLOPs; leading dimensions are broadcast."""
    m, k, n, b, c, d = sizes(rng, 6)
    pairs = [((m, k), (k, n)), ((1, k), (k, 1)), ((m, 1), (1, n)), ((k, k), (k, k))]
    check_matmul(student, pairs, "a multiply and an add for each product")
    pairs = [((b, m, k), (b, k, n)), ((b, c, m, k), (k, n)), ((m, k), (b, c, k, n))]
    pairs += [((b, 1, m, k), (c, k, n)), ((c, m, k), (b, 1, k, n))]
    pairs += [((b, 1, c, m, k), (d, c, k, n)), ((m, m, k), (m, k, n))]
    hint = "how many matrices does the result have? align the leading dimensions from the right"
    check_matmul(student, pairs, hint)


@pytest.mark.harm("not refused")
def test_matmul_refuses_shapes_that_do_not_fit(student, rng):
    """Inner sizes that differ, or batches that do not broadcast, raise an error."""
    m, k, n, b, c = sizes(rng, 5)
    with expect.right_call("two matrices that fit"):
        got = student.flop_counting.matmul_flops((m, k), (k, n))
        expect.number(got, got, of="matmul_flops", tolerance=0)
        expect.that(got > 0, "a product takes no FLOPs", of="matmul_flops")
    sums = [((m, k), (m, k)), ((m,), (k,)), ((m,), (k, n)), ((m, k), (n,)), ((m, 1), (k, n))]
    sums += [((m, k), (1, n)), ((b, m, k), (b, m, k))]
    batches = [((b, m, k), (c, k, n)), ((b, c, m, k), (b, k, n))]
    for pairs, when in [
        (sums, "the sizes that are summed over differ"),
        (batches, "the leading dimensions do not broadcast"),
    ]:
        for pair in pairs:
            with expect.raises((ValueError, RuntimeError), of="matmul_flops", when=when):
                student.flop_counting.matmul_flops(*pair)


@pytest.mark.harm("not refused")
def test_lists_stay_as_they_are(student, rng):
    """A shape may be a list as well as a tuple, and is not changed."""
    m, k, n, b = sizes(rng, 4)
    parts = [student.flop_counting.matmul_flops((m, size), (size, n)) for size in (k, b, k + b)]
    for part in parts:
        expect.number(part, part, of="matmul_flops", tolerance=0.0)
    reason = "the FLOPs do not grow with the size that is summed over"
    expect.that(parts[0] > 0 and parts[0] + parts[1] == parts[2], reason, of="matmul_flops")
    shapes = [[(k,), (k, n)], [(m, k), (k,)], [(k,), (k,)], [(b, m, k), (k, n)]]
    for of, args in [("matmul_flops", pair) for pair in shapes] + [("mlp_flops", [b, (m, k, n)])]:
        # Compare with the student's own counts, so that a mistake in the formula costs nothing.
        own = getattr(student.flop_counting, of)(*args)
        expect.number(own, own, of=of, tolerance=0.0)
        lists = tuple(list(x) if isinstance(x, tuple) else x for x in args)
        inputs = {"module": "flop_counting", "function": of, "args": lists}
        got = student.run(call_and_keep_inputs, **inputs)
        expect.number(got["result"], own, of=of, tolerance=0.0)
        expect.that(got["inputs"] == list(lists), "the caller's list is changed", of=of)


# --- linear_flops and mlp_flops


def check_linear(student, rng, cases, hint):
    """Check linear_flops of layers of distinct sizes, equal ones and ones.

    Args:
        cases: Options, each with the number of products that they ask for.
    """
    t, i, o = sizes(rng, 3, 2, 50)
    for layer in [(t, i, o), (i, i, i), (1, i, o), (t, 1, o), (t, i, 1)]:
        for options, products in cases:
            got = student.flop_counting.linear_flops(*layer, **options)
            expected = products * 2 * math.prod(layer)
            check(got, expected, of="linear_flops", inputs=f"{layer}, {options}", hint=hint)


@pytest.mark.harm("wrong number")
def test_linear_forward(student, rng):
    """The forward pass is one product; without `backward`, `input_grad` has no effect."""
    options = [{}, {"backward": False}, {"input_grad": True}, {"input_grad": False}]
    check_linear(student, rng, [(one, 1) for one in options], "2 · tokens · in · out")


@pytest.mark.harm("wrong number")
def test_linear_backward(student, rng):
    """`backward` adds two products to the forward pass: the weight's gradient and the input's."""
    options = [{"backward": True}, {"backward": True, "input_grad": True}]
    hint = "one product each for the forward pass, the weight's gradient and the input's gradient"
    check_linear(student, rng, [(one, 3) for one in options], hint)


@pytest.mark.harm("wrong number")
def test_linear_backward_without_input_gradient(student, rng):
    """If the input needs no gradient, the backward pass is one product: the weight's gradient."""
    options = {"backward": True, "input_grad": False}
    check_linear(student, rng, [(options, 2)], "the forward pass and the weight's gradient")


def stacks(rng):
    """Batches and sizes of stacks of layers: distinct, equal, repeated, and with a 1."""
    b, *dims = sizes(rng, 6, 2, 30)
    i, j, k = dims[:3]
    stacks = [dims[:2], dims[:3], dims, [i, i, i], [i, j, i, j, i], [i, 1, j, k]]
    return [(b, tuple(stack)) for stack in stacks] + [(1, tuple(dims[:4]))]


@pytest.mark.harm("wrong number")
def test_mlp(student, rng):
    """The forward pass is one product per layer, the backward pass two, but one in the first."""
    for b, dims in stacks(rng):
        products = [flops_of((b, i), (i, o)) for i, o in itertools.pairwise(dims)]
        hint = "layer i maps dims[i] features to dims[i + 1]"
        check(student.flop_counting.mlp_flops(b, dims), sum(products), of="mlp_flops", hint=hint)
        got = student.flop_counting.mlp_flops(b, dims, backward=True)
        hint = "two products more per layer, but only one in the first: x needs no gradient"
        check(got, 3 * sum(products) - products[0], of="mlp_flops", hint=hint)


# --- transformer_forward_flops


def config_of(rng, **options):
    vocab, context, layers, heads, width, d_ff = sizes(rng, 6)
    values = (20 + vocab, 30 + context, layers, heads * width, heads, 70 + d_ff)
    return {**dict(zip(CONFIG, values, strict=True)), **options}


def parts_of(config, batch, seq):
    """Return each part's FLOPs in a forward pass, from torch.matmul's operands in each layer and
    head.
    """
    d, heads, tokens = config["d_model"], config["num_heads"], (batch, seq)
    layers, width = config["num_layers"], d // heads
    up = flops_of((*tokens, d), (d, config["d_ff"])) * (2 if config.get("gated_ffn") else 1)
    ffn = up + flops_of((*tokens, config["d_ff"]), (config["d_ff"], d))
    return {
        "qkv": layers * flops_of((*tokens, d), (d, 3 * d)),
        "attention_scores": layers
        * flops_of((batch, heads, seq, width), (batch, heads, width, seq)),
        "attention_values": layers * flops_of((batch, heads, seq, seq), (batch, heads, seq, width)),
        "attention_output": layers * flops_of((*tokens, heads * width), (heads * width, d)),
        "ffn": layers * ffn,
        "lm_head": flops_of((*tokens, d), (d, config["vocab_size"])),
    }


def parts_from(student, config, batch, seq):
    got = student.run(probes.transformer, config=config, batch=batch, seq=seq)
    expect.kind(got, dict, of=OF_PARTS)
    return got


def models(rng):
    """Models with their batches and sequences: with each option, of equal sizes, and large."""
    batch, seq = sizes(rng, 2, 2, 14)
    both = {"tied_embeddings": True, "gated_ffn": True}
    for options in ({}, {"tied_embeddings": True}, {"gated_ffn": True}, both, {"num_heads": 1}):
        yield config_of(rng, **options), batch, seq
    yield {**dict.fromkeys(CONFIG, seq), "num_layers": 2}, seq, seq
    large = {"vocab_size": 50_000 + seq, "num_layers": 96, "d_model": 12_288, "d_ff": 50_000}
    yield {**config_of(rng), **large, "num_heads": 96, "context_length": 8192}, 64, 8000 + seq
    yield config_of(rng), 1, 1


def check_parts(student, rng, names, hint):
    """Check some parts of the forward pass of several models, independently of the other parts."""
    for config, batch, seq in models(rng):
        got, expected = parts_from(student, config, batch, seq), parts_of(config, batch, seq)
        for name in names:
            reason, look = f"no part {name!r}", "see the six keys in the docstring"
            expect.that(name in got, reason, of=OF_PARTS, hint=look)
            check(got[name], expected[name], of=OF_PARTS, name=repr(name), hint=hint)


@pytest.mark.harm("wrong number")
def test_transformer_projections(student, rng):
    """Queries, keys, values and the output take four d_model × d_model matrices in each layer."""
    hint = "three products per layer, and one with all heads in one row"
    check_parts(student, rng, ["qkv", "attention_output"], hint)


@pytest.mark.harm("wrong number")
def test_transformer_attention(student, rng):
    """In each head, every query times every key of its sequence, and the same for the values."""
    hint = "seq × seq scores per head, each a sum of d_model / num_heads products"
    check_parts(student, rng, ["attention_scores", "attention_values"], hint)


@pytest.mark.harm("wrong number")
def test_transformer_ffn(student, rng):
    """The FFN is two matrices in each layer, or three if it is gated."""
    check_parts(student, rng, ["ffn"], "two matrices; a gated FFN has a third")


@pytest.mark.harm("wrong number")
def test_transformer_lm_head(student, rng):
    """The LM head, tied or not, maps every token to vocab_size logits, once per model."""
    hint = "one product for the whole model; a tied matrix is multiplied too"
    check_parts(student, rng, ["lm_head"], hint)


@pytest.mark.harm("wrong number")
def test_transformer_of_today(student, rng):
    """Keys and values may have fewer heads than queries, and a token goes through a few experts."""
    plain, (extra, active, shared) = config_of(rng), sizes(rng, 3)
    heads, width = plain["num_heads"], plain["d_model"] // plain["num_heads"]
    experts = {"experts": active + 9, "active_experts": active, "shared_experts": shared}
    scores = dict.fromkeys(("attention_scores", "attention_values"), 1)
    for options, factors in [
        ({"kv_heads": 1}, {**scores, "qkv": Fraction(heads + 2, 3 * heads)}),
        ({"head_width": width + extra}, dict.fromkeys(PARTS[:4], Fraction(width + extra, width))),
        (experts, {"ffn": active + shared}),
        ({**experts, "gated_ffn": True}, {"ffn": active + shared}),
        ({"shared_experts": shared}, {"ffn": 1 + shared}),
    ]:
        # Compare with the student's own counts, so that a mistake in a plain layer costs nothing
        # here.
        own = parts_from(student, {**plain, "gated_ffn": "gated_ffn" in options}, 2, 3)
        got = parts_from(student, {**plain, **options}, 2, 3)
        for name, factor in factors.items():
            expect.that(name in own and name in got, f"no part {name!r}", of=OF_PARTS)
            expect.number(own[name], own[name], of=OF_PARTS, tolerance=0)
            expect.that(own[name] > 0, f"{name!r} takes no FLOPs", of=OF_PARTS)
            hint = f"{options}: query_width, kv_width, and the FFNs of a token"
            check(got[name], int(factor * int(own[name])), of=OF_PARTS, name=repr(name), hint=hint)


@pytest.mark.harm("wrong number")
def test_transformer_parts_are_these_six(student, rng):
    """The answer has exactly these six parts, so that their sum is the whole forward pass."""
    got = parts_from(student, config_of(rng), 2, 3)
    extra, missing = len(got.keys() - set(PARTS)), len(set(PARTS) - got.keys())
    reason, hint = f"{extra} keys too many, {missing} missing", "see the six keys in the docstring"
    expect.that(extra + missing == 0, reason, of=OF_PARTS, hint=hint)
    for name, count in got.items():
        expect.number(count, count, of=OF_PARTS, name=repr(name), tolerance=0)
        expect.that(count > 0, f"{name!r} takes no FLOPs", of=OF_PARTS)


# --- training_flops and all of them


def check_training(student, rng, option, factor, hint):
    n, d = sizes(rng, 2, 2, 1000)
    for run in [(n, d), (n, n), (1, d), (n, 1), (70_000_000_000, 15_000_000_000_000)]:
        got = student.flop_counting.training_flops(*run, **option)
        check(got, factor * math.prod(run), of="training_flops", hint=hint)


# Stays: it checks the rule of thumb itself; the test of large counts would catch it by chance.
@pytest.mark.harm("wrong number")
def test_training_takes_six_flops_for_a_parameter_and_a_token(student, rng):
    """Training takes 6 FLOPs per parameter and token: 2 forward and 4 backward."""
    check_training(student, rng, {}, 6, "6 · parameters · tokens")


@pytest.mark.harm("wrong number")
def test_training_with_recomputation_takes_eight(student, rng):
    """Recomputing the forward pass adds 2 FLOPs per parameter and token: 8 in total."""
    hint = "which pass is recomputed, and how many FLOPs does it take?"
    check_training(student, rng, {"recompute_forward": True}, 8, hint)


@pytest.mark.harm("wrong number")
def test_counts_are_integers(student, rng):
    """Counts are exact Python integers, even for runs so large that they overflow int64."""
    # Each count is larger than 2**63 and divisible by a product of two of these odd sizes. A number
    # that was rounded to a float, or that lost the bits above 64, is not divisible by it.
    a, b, c = (2**21 + 2 * i + 1 for i in sizes(rng, 3, 1, 1000))
    config = dict(zip(CONFIG, (b, 7 * a, 5, 3 * c, 3, b), strict=True))
    parts = parts_from(student, config, 7, a)
    gated = parts_from(student, {**config, "gated_ffn": True}, 7, a)
    module, both = student.flop_counting, {"backward": True}
    counts = [
        ("matmul_flops", module.matmul_flops((a, b), (b, c))),
        *(("linear_flops", module.linear_flops(a, b, c, **option)) for option in ({}, both)),
        *(("mlp_flops", module.mlp_flops(a, (b, c), **option)) for option in ({}, both)),
        ("training_flops", module.training_flops(a * b, c * 2**20)),
        ("training_flops", module.training_flops(a * b, c * 2**20, recompute_forward=True)),
        *((OF_PARTS, parts.get(name)) for name in ("qkv", "ffn")),
        (OF_PARTS, gated.get("ffn")),
    ]
    hint = "use integers throughout: / gives a float, // does not"
    for of, got in [*counts, *((OF_PARTS, n) for n in parts.values())]:
        expect.kind(got, int, of=of, name="a count", hint=hint)
    hint = "a float is exact only up to 2**53, and a 64-bit integer of numpy or torch overflows"
    for of, got in counts:
        exact = got > 0 and got % (a * c) == 0
        expect.that(exact, "a large count is not exact", of=of, hint=hint)
