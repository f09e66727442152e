"""flop_formulas: the FLOPs of matrix products, alone and in layers, models and training runs.

A float with a whole value fails only the one test for integers. promises/flop_formulas.toml lists
the inputs that the stubs do not promise.

The oracle is the shape of torch.matmul's result: 2 · K FLOPs per element. Layers and models are
lists of such products.
Sizes are distinct, so that no two dimensions can be confused, and then also equal, 0 and 1: a
program may tell things apart by sizes that happen to differ.
"""

import itertools
import math

import numpy as np
import pytest
import torch

from kit import expect
from tests.probes import flop_counting as probes

CONFIG = ("vocab_size", "context_length", "num_layers", "d_model", "num_heads", "d_ff")
PARTS = ("qkv", "attention_scores", "attention_values", "attention_output", "ffn", "lm_head")
OF_PARTS = "transformer_forward_flops"


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


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


def config_of(rng, **options):
    """The config fields of a small model with distinct sizes."""
    vocab, context, layers, heads, width, d_ff = sizes(rng, 6)
    return {
        **dict(
            zip(
                CONFIG,
                (20 + vocab, 30 + context, layers, heads * width, heads, 70 + d_ff),
                strict=True,
            )
        ),
        **options,
    }


def parts_of(config, batch, seq):
    """Return each part's FLOPs in a forward pass, from torch.matmul's operands in each layer and
    head.
    """
    d, heads, tokens = config["d_model"], config["num_heads"], (batch, seq)
    layers, width = config["num_layers"], d // heads
    to_d_ff = 2 if config.get("gated_ffn") else 1
    ffn = to_d_ff * flops_of((*tokens, d), (d, config["d_ff"])) + flops_of(
        (*tokens, config["d_ff"]), (config["d_ff"], d)
    )
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
    """Check that the student's parts are a dict, and return them."""
    got = student.run(probes.transformer, config=config, batch=batch, seq=seq)
    expect.kind(got, dict, of=OF_PARTS)
    return got


def models(rng):
    """Models with their batches and sequences: distinct sizes, equal ones, and a 1 or a 0 in each
    place.
    """
    batch, seq = sizes(rng, 2, 2, 14)
    both = {"tied_embeddings": True, "gated_ffn": True}
    for options in ({}, {"tied_embeddings": True}, {"gated_ffn": True}, both, {"num_heads": 1}):
        yield config_of(rng, **options), batch, seq
    yield {**dict.fromkeys(CONFIG, seq), "num_layers": 2}, seq, seq
    for name in ("vocab_size", "context_length", "num_layers", "d_ff"):
        for size in (0, 1):
            length = size if name == "context_length" else seq
            yield config_of(rng, **{name: size}), batch, length
    for width in (0, 1):
        yield config_of(rng, d_model=width, num_heads=1), 1, seq
    large = {"vocab_size": 50_000 + seq, "num_layers": 96, "d_model": 12_288, "d_ff": 50_000}
    yield {**config_of(rng), **large, "num_heads": 96, "context_length": 8192}, 64, 8000 + seq
    yield config_of(rng), 0, seq
    yield config_of(rng), batch, 1
    yield config_of(rng), batch, 0


def check_part(student, rng, name, hint):
    """Check one part of the forward pass of several models, independently of the other parts."""
    cases = list(models(rng))
    answers = student.run(probes.transformers, models=cases)
    for got, (config, batch, seq) in zip(answers, cases, strict=True):
        expect.kind(got, dict, of=OF_PARTS)
        expect.that(
            name in got, f"no part {name!r}", of=OF_PARTS, hint="see the six keys in the docstring"
        )
        check(
            got[name], parts_of(config, batch, seq)[name], of=OF_PARTS, name=repr(name), hint=hint
        )


def check_calls(student, function, cases, *, hint=None):
    """Check the answer to each call, given its arguments, its options and the right one.

    A call without a right answer must not change the next answers.
    """
    calls = [(args, options) for args, options, _ in cases]
    results = student.run(probes.with_options, function=function, calls=calls)
    for got, (_, _, expected) in zip(results, cases, strict=True):
        if expected is not None:
            check(got, expected, of=function, hint=hint)


# --- matmul_flops


# Stays: this test checks the formula itself; a mistake in it also shows in every other product.
@pytest.mark.core
@pytest.mark.points(2)
def test_matmul_of_matrices(student, rng):
    """An m×k times a k×n matrix takes 2 · m · k · n FLOPs: k multiplies and k adds per element."""
    m, k, n = sizes(rng, 3)
    pairs = [((m, k), (k, n)), ((1, k), (k, 1)), ((m, 1), (1, n)), ((k, k), (k, k))]
    pairs += [((m, k), (k, m)), ((k, m), (m, k)), ((k, m), (m, n))]  # the same sizes, reordered
    check_matmul(student, pairs, "a multiply and an add for each product")


def test_matmul_of_vectors(student, rng):
    """A vector on the left is a row, one on the right is a column; two vectors give one number."""
    m, k, n = sizes(rng, 3)
    pairs = [((k,), (k,)), ((m, k), (k,)), ((k,), (k, n)), ((m, n, k), (k,)), ((k,), (m, k, n))]
    pairs += [
        ((m, n, n, k), (k,)),
        ((k,), (n, m, k, n)),
        ((k,), (k, k)),
        ((k, k), (k,)),
        ((1,), (1,)),
        ((1,), (1, n)),
        ((m, 1), (1,)),
    ]
    check_matmul(student, pairs, "which dimension of a vector is summed over?")


def test_matmul_of_sizes_of_0(student, rng):
    """A size of 0 leaves nothing to compute; broadcast against a 1, it stays 0."""
    m, k, n, b = sizes(rng, 4)
    nothing = [
        ((0, k), (k, n)),
        ((m, 0), (0, n)),
        ((m, k), (k, 0)),
        ((0,), (0,)),
        ((0,), (0, n)),
        ((m, k), (0, k, n)),
        ((0, m, k), (1, k, n)),
        ((b, 1, m, k), (0, k, n)),
    ]
    check_matmul(student, [((b, m, k), (k, n)), *nothing], "which shape has torch's result?")


def test_shapes_of_other_kinds_stay_as_they_are(student, rng):
    """A shape may be any sequence, such as a list or a torch.Size, and is not changed.

    The two shapes may be of different kinds.
    """
    m, k, n, b = sizes(rng, 4)
    # Compare with the student's own counts, so that a mistake in the formula costs nothing here.
    matmul = student.flop_counting.matmul_flops
    parts = [matmul((m, size), (size, n)) for size in (k, b, k + b)]
    for part in parts:
        expect.number(part, part, of="matmul_flops", tolerance=0.0)
    expect.that(
        parts[0] > 0 and parts[0] + parts[1] == parts[2],
        "the FLOPs do not grow with the size that is summed over",
        of="matmul_flops",
    )
    calls = [("matmul_flops", [], pair) for pair in ([(k,), (k, n)], [(m, k), (k,)], [(k,), (k,)])]
    calls += [("matmul_flops", [], [(b, m, k), (k, n)]), ("mlp_flops", [b], [(m, k, n)])]
    for function, before, shapes in calls:
        own = getattr(student.flop_counting, function)(*before, *shapes)
        expect.number(own, own, of=function, tolerance=0.0)
        for kind in ("list", "Size"):
            got = student.run(
                probes.of_sequences, function=function, before=before, shapes=shapes, kind=kind
            )
            expect.number(got["answer"], own, of=function, tolerance=0.0)
            expect.that(got["kept"], "the caller's list is changed", of=function)


@pytest.mark.points(2)
def test_matmul_broadcasts_batches(student, rng):
    """Leading dimensions are broadcast: each matrix product in the result counts once."""
    m, k, n, b, c, d = sizes(rng, 6)
    pairs = [
        ((b, m, k), (b, k, n)),
        ((b, c, m, k), (k, n)),
        ((m, k), (b, c, k, n)),
        ((b, 1, m, k), (c, k, n)),
        ((c, m, k), (b, 1, k, n)),
        ((b, 1, c, m, k), (d, c, k, n)),
        ((1, 1, m, k), (1, k, n)),
        ((m, m, k), (m, k, n)),
    ]
    check_matmul(
        student,
        pairs,
        "how many matrices does the result have? align the leading dimensions from the right",
    )


def test_matmul_refuses_shapes_that_do_not_fit(student, rng):
    """Inner sizes that differ, or batches that do not broadcast, raise an error."""
    m, k, n, b, c = sizes(rng, 5)
    with expect.right_call("two matrices that fit"):
        got = student.flop_counting.matmul_flops((m, k), (k, n))
        expect.number(got, got, of="matmul_flops", tolerance=0)
        expect.that(got > 0, "a product takes no FLOPs", of="matmul_flops")
    sums_differ = "the sizes that are summed over differ"
    batches_differ = "the leading dimensions do not broadcast"
    for a, b_shape, when in [
        ((m, k), (m, k), sums_differ),
        ((m,), (k,), sums_differ),
        ((1,), (k,), sums_differ),
        ((m,), (k, n), sums_differ),
        ((m, k), (n,), sums_differ),
        ((m, 0), (k, n), sums_differ),
        ((m, 1), (k, n), sums_differ),
        ((m, k), (1, n), sums_differ),
        ((m, k), (0, n), sums_differ),
        ((m, k), (n, 0), sums_differ),
        ((m,), (b, k, n), sums_differ),
        ((b, m, k), (n,), sums_differ),
        ((b, m, k), (b, m, k), sums_differ),
        ((b, m, k), (c, k, n), batches_differ),
        ((0, m, k), (c, k, n), batches_differ),
        ((b, c, m, k), (b, k, n), batches_differ),
        ((b, c, m, k), (c, b, k, n), batches_differ),
        ((b, c, m, k), (m, c, k, n), batches_differ),
    ]:
        with expect.raises((ValueError, RuntimeError), of="matmul_flops", when=when):
            student.flop_counting.matmul_flops(a, b_shape)


# --- linear_flops and mlp_flops


def sizes_of_a_layer(rng):
    """Rows, inputs and outputs: distinct, equal, and with a 1 or a 0 in each place."""
    t, i, o = sizes(rng, 3, 2, 50)
    return [(t, i, o), (i, i, i), (1, i, o), (t, 1, o), (t, i, 1), (0, i, o), (t, 0, o), (t, i, 0)]


def stacks(rng):
    """Batches and sizes of stacks of layers: distinct, equal, repeated, and with a 1 or a 0.

    No stack is without any weight.
    """
    b, *dims = sizes(rng, 6, 2, 30)
    i, j, k = dims[:3]
    stacks = [dims[:2], dims[:3], dims, [i, i, i], [i, j, i, j, i], [i, 1, j, k], [i, j, k, 0]]
    stacks += [[0, j, k], [j, i, k]]
    return [(b, stack) for stack in stacks] + [(1, dims[:4]), (0, dims[:4])]


@pytest.mark.core
@pytest.mark.points(2)
def test_linear_forward(student, rng):
    """The forward pass is one product; without `backward`, `input_grad` has no effect."""
    cases = []
    for t, i, o in sizes_of_a_layer(rng):
        for options in ({}, {"backward": False}, {"input_grad": True}, {"input_grad": False}):
            cases.append(((t, i, o), options, flops_of((t, i), (i, o))))
    check_calls(student, "linear_flops", cases, hint="2 · tokens · in · out")


@pytest.mark.core
@pytest.mark.points(2)
def test_linear_backward(student, rng):
    """`backward` adds two products to the forward pass: the weight's gradient and the input's."""
    cases = []
    for t, i, o in sizes_of_a_layer(rng):
        expected = flops_of((t, i), (i, o)) + flops_of((o, t), (t, i)) + flops_of((t, o), (o, i))
        cases.append(((t, i, o), {}, None))
        for options in ({}, {"input_grad": True}):
            cases.append(((t, i, o), {"backward": True, **options}, expected))
    hint = "one product each for the forward pass, the weight's gradient and the input's gradient"
    check_calls(student, "linear_flops", cases, hint=hint)


def test_linear_backward_without_input_gradient(student, rng):
    """If the input needs no gradient, the backward pass is one product: the weight's gradient."""
    cases = []
    for t, i, o in sizes_of_a_layer(rng):
        expected = flops_of((t, i), (i, o)) + flops_of((o, t), (t, i))
        cases.append(((t, i, o), {"backward": True}, None))
        cases.append(((t, i, o), {"backward": True, "input_grad": False}, expected))
    check_calls(student, "linear_flops", cases)


def test_mlp_forward(student, rng):
    """The forward pass of a stack is one product per layer."""
    cases = []
    for b, dims in stacks(rng):
        expected = sum(flops_of((b, i), (i, o)) for i, o in itertools.pairwise(dims))
        for options in ({}, {"backward": False}):
            cases.append(((b, tuple(dims)), options, expected))
    hint = "layer i maps dims[i] features to dims[i + 1]"
    check_calls(student, "mlp_flops", cases, hint=hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_mlp_backward(student, rng):
    """A layer's backward pass is two products, or one in the first: x needs no gradient."""
    cases = []
    for b, dims in stacks(rng):
        weights = sum(i * o for i, o in itertools.pairwise(dims))
        expected = 6 * b * weights - 2 * b * dims[0] * dims[1]
        cases.append(((b, tuple(dims)), {}, None))
        cases.append(((b, tuple(dims)), {"backward": True}, expected))
    hint = "two products per layer, but only one in the first"
    check_calls(student, "mlp_flops", cases, hint=hint)


# --- transformer_forward_flops


def test_transformer_qkv(student, rng):
    """Queries, keys and values take three d_model × d_model matrices in each layer."""
    check_part(student, rng, "qkv", "three products per layer")


@pytest.mark.core
def test_transformer_attention_scores(student, rng):
    """Scores: in each head, every query times every key of its sequence, even if masked."""
    check_part(
        student,
        rng,
        "attention_scores",
        "seq × seq scores per head, each a sum of d_model / num_heads products",
    )


@pytest.mark.core
def test_transformer_attention_values(student, rng):
    """Values: in each head, seq × seq probabilities times seq values, even if masked."""
    check_part(student, rng, "attention_values", "the probabilities of each head times its values")


def test_transformer_attention_output(student, rng):
    """The concatenated head outputs go through one d_model × d_model matrix in each layer."""
    check_part(student, rng, "attention_output", "one product per layer, with all heads in one row")


@pytest.mark.core
def test_transformer_ffn(student, rng):
    """The FFN is two matrices in each layer, or three if it is gated."""
    check_part(
        student,
        rng,
        "ffn",
        "two matrices; a gated FFN has a third",
    )


@pytest.mark.core
def test_transformer_lm_head(student, rng):
    """The LM head, tied or not, maps every token to vocab_size logits, once per model."""
    check_part(
        student,
        rng,
        "lm_head",
        "one product for the whole model; a tied matrix is multiplied too",
    )


def test_transformer_parts_are_these_six(student, rng):
    """The answer has exactly these six parts, so that their sum is the whole forward pass."""
    config, hint = config_of(rng), "see the six keys in the docstring"
    once, more = (parts_from(student, config, batch, config["context_length"]) for batch in (2, 3))
    extra, missing = len(once.keys() - set(PARTS)), len(set(PARTS) - once.keys())
    expect.that(
        extra + missing == 0, f"{extra} keys too many, {missing} missing", of=OF_PARTS, hint=hint
    )
    for name in PARTS:
        expect.number(once[name], once[name], of=OF_PARTS, name=repr(name), tolerance=0)
        expect.number(more.get(name), more.get(name), of=OF_PARTS, name=repr(name), tolerance=0)
        expect.that(
            0 < once[name] < more[name], f"{name!r} does not grow with the batch", of=OF_PARTS
        )


# --- training_flops and all of them


def runs(rng):
    """Parameters and tokens of small runs."""
    n, d = sizes(rng, 2, 2, 1000)
    return [(n, d), (n, n), (1, d), (n, 1), (0, d), (n, 0)]


@pytest.mark.core
@pytest.mark.points(2)
def test_training_takes_six_flops_for_a_parameter_and_a_token(student, rng):
    """Training takes 6 FLOPs per parameter and token: 2 forward and 4 backward."""
    cases = []
    for n, d in [*runs(rng), (70_000_000_000, 15_000_000_000_000)]:
        for options in ({}, {"recompute_forward": False}):
            cases.append(((n, d), options, 6 * n * d))
    check_calls(student, "training_flops", cases, hint="6 · parameters · tokens")


def test_training_with_recomputation_takes_eight(student, rng):
    """Recomputing the forward pass adds 2 FLOPs per parameter and token: 8 in total."""
    cases = []
    for n, d in [*runs(rng), (70_000_000_001, 15_000_000_000_001)]:
        cases.append(((n, d), {}, None))
        cases.append(((n, d), {"recompute_forward": True}, 8 * n * d))
    hint = "which pass is recomputed, and how many FLOPs does it take?"
    check_calls(student, "training_flops", cases, hint=hint)


def test_counts_are_integers(student, rng):
    """Counts are exact Python integers, even for runs so large that they overflow int64."""
    # Each count is larger than 2**63 and divisible by a product of two of these odd sizes. A number
    # that was rounded to a float, or that lost the bits above 64, is not divisible by it. Tensors
    # of these sizes could still exist.
    a, b, c = (2**21 + 2 * i + 1 for i in sizes(rng, 3, 1, 1000))
    config = dict(zip(CONFIG, (b, 7 * a, 5, 3 * c, 3, b), strict=True))
    parts = parts_from(student, config, 7, a)
    gated = parts_from(student, {**config, "gated_ffn": True}, 7, a)
    training = student.flop_counting.training_flops
    counts = [
        ("matmul_flops", student.flop_counting.matmul_flops((a, b), (b, c))),
        ("linear_flops", student.flop_counting.linear_flops(a, b, c)),
        ("mlp_flops", student.flop_counting.mlp_flops(a, (b, c))),
        ("training_flops", training(a * b, c * 2**20)),
        ("training_flops", training(a * b, c * 2**20, recompute_forward=True)),
        *((OF_PARTS, parts.get(name)) for name in ("qkv", "ffn")),
        (OF_PARTS, gated.get("ffn")),
    ]
    counts = [(of, a * c, got) for of, got in counts] + one_size_beyond_floats(student, rng)
    for of, got in [
        *((of, got) for of, _, got in counts),
        *((OF_PARTS, n) for n in parts.values()),
    ]:
        expect.kind(
            got,
            int,
            of=of,
            name="a count",
            hint="use integers throughout: / gives a float, // does not",
        )
    for of, divisor, got in counts:
        hint = "a float is exact only up to 2**53, and a 64-bit integer of numpy or torch overflows"
        expect.that(got > 0 and got % divisor == 0, "a large count is not exact", of=of, hint=hint)


def one_size_beyond_floats(student, rng):
    """Counts with one size that no float can represent, as (function, a divisor, the count)."""
    big = 2**53 + 2 * sizes(rng, 1, 1, 1000)[0] + 1
    module, (i, j) = student.flop_counting, sizes(rng, 2)
    shapes = [((big, i), (i, j)), ((i, big), (big, j)), ((i, j), (j, big)), ((big, i, j), (j,))]
    counts = [("matmul_flops", module.matmul_flops(*pair)) for pair in shapes]
    for function, before in [
        ("linear_flops", ((big, i, j), (i, big, j), (i, j, big))),
        ("mlp_flops", ((big, (i, j)), (i, (big, j)), (i, (j, big)))),
    ]:
        for arguments in before:
            for options in ({}, {"backward": True}):
                counts += [(function, getattr(module, function)(*arguments, **options))]
    for pair in ((big, j), (i, big)):
        for options in ({}, {"recompute_forward": True}):
            counts += [("training_flops", module.training_flops(*pair, **options))]
    # The tensors of these models could exist, too: scores have the square of a sequence's length.
    tiny, long = {"vocab_size": 3, "d_model": 5, "num_heads": 1, "d_ff": 7}, big // 2**26 * 2 + 1
    models = [
        ("lm_head", {"vocab_size": big}, i, j, big),
        ("ffn", {"d_ff": big}, i, j, big),
        ("attention_output", {**tiny, "context_length": big}, big, j, big),
        ("attention_scores", {**tiny, "context_length": long}, i, long, long**2),
    ]
    of_parts = []
    for part, fields, batch, seq, divisor in models:
        parts = parts_from(student, config_of(rng, **fields), batch, seq)
        of_parts += [(OF_PARTS, divisor, parts.get(part))]
    return [(of, big, got) for of, got in counts] + of_parts
