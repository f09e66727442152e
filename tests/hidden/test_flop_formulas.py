"""flop_formulas: how many FLOPs products of matrices take, alone and as layers, models and training runs.

Accepted on purpose: any words of an error of matmul_flops, since torch names no argument either, and words that name the
argument among others elsewhere; the parts of a transformer in any order; any way that gives 0 for empty shapes and counts
of 0. Not asked: shapes as lists, counts that are no integers, how several mistakes in one call are told apart.

The oracle for shapes is torch.matmul itself, on small tensors: 2 · K for each element of what it returns, and a refusal
where it refuses. Layers and models are lists of such products. Everything is compared exactly.
"""

import itertools

import pytest
import torch

from tests import expect
from tests.probes import flop_counting as probes

CONFIG = ("vocab_size", "context_length", "num_layers", "d_model", "num_heads", "d_ff")


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def flops_of(a, b):
    """What torch.matmul takes for these shapes."""
    return 2 * a[-1] * torch.matmul(torch.zeros(a), torch.zeros(b)).numel()


def check_matmul(student, pairs, hint):
    for a, b in pairs:
        got = student.flop_counting.matmul_flops(tuple(a), tuple(b))
        expect.value(got, flops_of(a, b), of="matmul_flops", inputs=f"a {tuple(a)}, b {tuple(b)}", hint=hint)


def check_refused(student, pairs, when, hint=None):
    """A right call first, then ValueError for each of `pairs`, which torch.matmul refuses as well."""
    got = student.flop_counting.matmul_flops((2, 3), (3, 4))
    expect.that(type(got) is int and got > 0, "a right call does not give a positive int", of="matmul_flops")
    for a, b in pairs:
        with expect.raises(ValueError, of="matmul_flops", when=when, hint=hint):
            student.flop_counting.matmul_flops(a, b)


def config_of(rng, **options):
    """A small model of distinct sizes, as the fields of its config."""
    vocab, context, layers, heads, width, d_ff = sizes(rng, 6)
    return {**dict(zip(CONFIG, (20 + vocab, 30 + context, layers, heads * width, heads, 70 + d_ff), strict=True)), **options}


def parts_of(config, batch, seq):
    """The products of a forward pass by part, as torch.matmul's operands in each layer and head."""
    d, heads, tokens = config["d_model"], config["num_heads"], (batch, seq)
    layers, width = config["num_layers"], d // heads
    to_d_ff = 2 if config.get("gated_ffn") else 1
    ffn = to_d_ff * flops_of((*tokens, d), (d, config["d_ff"])) + flops_of((*tokens, config["d_ff"]), (config["d_ff"], d))
    return {
        "qkv": layers * flops_of((*tokens, d), (d, 3 * d)),
        "attention_scores": layers * flops_of((batch, heads, seq, width), (batch, heads, width, seq)),
        "attention_values": layers * flops_of((batch, heads, seq, seq), (batch, heads, seq, width)),
        "attention_output": layers * flops_of((*tokens, heads * width), (heads * width, d)),
        "ffn": layers * ffn,
        "lm_head": flops_of((*tokens, d), (d, config["vocab_size"])),
    }


def check_part(student, name, config, batch, seq, hint):
    """One part of a forward pass, whatever is said of the others."""
    got = student.run(probes.transformer, config=config, batch=batch, seq=seq)
    of = "transformer_forward_flops"
    if type(got) is not dict:
        expect.value(got, parts_of(config, batch, seq), of=of)
    expect.that(name in got, f"no part {name!r}", of=of, hint="the six keys of the docstring")
    expect.value({name: got[name]}, {name: parts_of(config, batch, seq)[name]}, of=of, hint=hint)


# --- matmul_flops


# Stays: it is the formula itself; a mistake in it shows in every other product as well.
def test_matmul_of_matrices(student, rng):
    """An m×k times a k×n matrix takes 2 · m · k · n FLOPs: a multiply and an add for each of k products."""
    m, k, n = sizes(rng, 3)
    check_matmul(student, [((m, k), (k, n)), ((1, k), (k, 1)), ((m, 1), (1, n))], "a multiply and an add for each product")


def test_matmul_of_vectors(student, rng):
    """A vector on the left is a row, one on the right a column, and two of them give one number."""
    m, k, n = sizes(rng, 3)
    pairs = [((k,), (k,)), ((m, k), (k,)), ((k,), (k, n)), ((m, n, k), (k,)), ((k,), (m, k, n)), ((1,), (1,))]
    check_matmul(student, pairs, "which dimension of a vector is summed over?")


@pytest.mark.points(2)
def test_matmul_broadcasts_batches(student, rng):
    """Leading dimensions are broadcast: each product of two matrices of the result counts once."""
    m, k, n, b, c, d = sizes(rng, 6)
    pairs = [
        ((b, m, k), (b, k, n)),
        ((b, c, m, k), (k, n)),
        ((m, k), (b, c, k, n)),
        ((b, 1, m, k), (c, k, n)),
        ((c, m, k), (b, 1, k, n)),
        ((b, 1, c, m, k), (d, c, k, n)),
        ((1, 1, m, k), (1, k, n)),
    ]
    check_matmul(student, pairs, "how many matrices has the result? line the leading dimensions up from the right")


def test_matmul_of_empty_operands(student, rng):
    """A size of 0 is right wherever torch.matmul takes it, and makes 0 FLOPs."""
    m, k, n, b = sizes(rng, 4)
    pairs = [
        ((0, k), (k, n)),
        ((m, 0), (0, n)),
        ((m, k), (k, 0)),
        ((0,), (0,)),
        ((0, m, k), (1, k, n)),
        ((m, k), (b, 0, k, n)),
        ((1, m, k), (0, k, n)),
    ]
    check_matmul(student, pairs, "0 is a size as any other")


def test_matmul_refuses_sizes_that_differ(student, rng):
    """Different sizes to sum over are a ValueError; a 1 is not broadcast there."""
    m, k, n, b = sizes(rng, 4)
    pairs = [
        ((m, k), (m, k)),
        ((m, k), (k + 1, n)),
        ((m, 1), (k, n)),
        ((m, k), (1, n)),
        ((k,), (k + 1,)),
        ((k,), (1,)),
        ((m, k), (m,)),
        ((k,), (n, k)),
        ((b, m, k), (b, m, k)),
        ((m, k), (0, n)),
    ]
    check_refused(student, pairs, "the sizes that are summed over differ")


def test_matmul_refuses_batches_that_do_not_broadcast(student, rng):
    """Leading dimensions that differ and of which none is 1 are a ValueError, 0 and 2 among them."""
    m, k, n, b, c = sizes(rng, 5)
    pairs = [
        ((b, m, k), (c, k, n)),
        ((b, c, m, k), (b, k, n)),
        ((b, 1, m, k), (c, 1, k, n)),
        ((0, m, k), (b, k, n)),
        ((b, c, m, k), (c, b, k, n)),
    ]
    check_refused(student, pairs, "the leading dimensions do not broadcast", "equal, or one of them 1")


def test_matmul_refuses_scalars(student):
    """A scalar on either side is a ValueError, as torch.matmul wants at least one dimension."""
    check_refused(student, [((), (3,)), ((3, 2), ()), ((), ())], "an operand is a scalar")


def test_matmul_refuses_negative_sizes(student):
    """A negative size is a ValueError, also where two of them make a positive product."""
    pairs = [((-2, 3), (3, 4)), ((-2, 3), (3, -4)), ((2, -3), (-3, 4)), ((-5, 2, 3), (-5, 3, 4)), ((2, 3), (-1, 3, 4))]
    check_refused(student, pairs, "a size is negative")


# --- linear_flops and mlp_flops


def test_linear_forward(student, rng):
    """The forward pass is one product; without `backward`, `input_grad` changes nothing."""
    for _ in range(3):
        t, i, o = sizes(rng, 3, 2, 50)
        for options in ({}, {"backward": False}, {"input_grad": True}, {"input_grad": False}):
            got = student.flop_counting.linear_flops(t, i, o, **options)
            expect.value(got, flops_of((t, i), (i, o)), of="linear_flops", hint="2 · tokens · in · out")
    for t, i, o in [(0, 3, 4), (3, 0, 4), (3, 4, 0)]:
        expect.value(student.flop_counting.linear_flops(t, i, o), 0, of="linear_flops")


def test_linear_backward(student, rng):
    """`backward` adds the weight's gradient and the input's to the forward pass, a product each."""
    for _ in range(3):
        t, i, o = sizes(rng, 3, 2, 50)
        expected = flops_of((t, i), (i, o)) + flops_of((o, t), (t, i)) + flops_of((t, o), (o, i))
        for options in ({}, {"input_grad": True}):
            got = student.flop_counting.linear_flops(t, i, o, backward=True, **options)
            expect.value(got, expected, of="linear_flops", hint="the forward pass is part of the answer")


def test_linear_backward_without_input_gradient(student, rng):
    """Where the input needs no gradient, the backward pass is one product: the weight's gradient."""
    for _ in range(3):
        t, i, o = sizes(rng, 3, 2, 50)
        got = student.flop_counting.linear_flops(t, i, o, backward=True, input_grad=False)
        expect.value(got, flops_of((t, i), (i, o)) + flops_of((o, t), (t, i)), of="linear_flops")


def test_linear_refuses_negative_counts(student):
    """A negative count is a ValueError that names it, also where two of them make a positive product."""
    student.flop_counting.linear_flops(2, 3, 4)
    for naming, args in [("tokens", (-1, 3, 4)), ("in_features", (2, -3, 4)), ("out_features", (2, 3, -4))]:
        with expect.raises(ValueError, of="linear_flops", when=f"{naming} is negative", naming=naming):
            student.flop_counting.linear_flops(*args)
    with expect.raises(ValueError, of="linear_flops", when="in_features and out_features are negative"):
        student.flop_counting.linear_flops(2, -3, -4)


def test_mlp_forward(student, rng):
    """The forward pass of a stack is one product a layer."""
    b, *dims = sizes(rng, 6, 2, 30)
    for count in (2, 3, 5):
        layers = itertools.pairwise(dims[:count])
        expected = sum(flops_of((b, i), (i, o)) for i, o in layers)
        for options in ({}, {"backward": False}):
            got = student.flop_counting.mlp_flops(b, tuple(dims[:count]), **options)
            expect.value(got, expected, of="mlp_flops", hint="layer i is dims[i] × dims[i + 1]")
    for empty in [(0, tuple(dims)), (b, (dims[0], 0, dims[1]))]:
        expect.value(student.flop_counting.mlp_flops(*empty), 0, of="mlp_flops", hint="0 is a right count")


@pytest.mark.points(2)
def test_mlp_backward(student, rng):
    """Each layer's backward pass is two products, but the first layer's one: the data needs no gradient."""
    b, *dims = sizes(rng, 6, 2, 30)
    for count in (2, 3, 5):
        weights = sum(i * o for i, o in itertools.pairwise(dims[:count]))
        got = student.flop_counting.mlp_flops(b, tuple(dims[:count]), backward=True)
        expected = 6 * b * weights - 2 * b * dims[0] * dims[1]
        expect.value(got, expected, of="mlp_flops", hint="which gradient of the first layer does nobody need?")


def test_mlp_refuses_wrong_calls(student):
    """A negative batch, and fewer than two sizes or a negative one in `dims`, are a ValueError that names the argument."""
    student.flop_counting.mlp_flops(2, (3, 4))
    for naming, when, args in [
        ("batch", "batch is negative", (-2, (3, 4))),
        ("dims", "dims has one entry", (2, (3,))),
        ("dims", "dims is empty", (2, ())),
        ("dims", "an entry of dims is negative", (2, (3, -4))),
        ("dims", "two entries of dims are negative", (2, (-3, -4, 5))),
        ("dims", "an entry of dims is negative", (2, (-3, 4, 5))),
    ]:
        with expect.raises(ValueError, of="mlp_flops", when=when, naming=naming):
            student.flop_counting.mlp_flops(*args)


# --- transformer_forward_flops


@pytest.mark.points(3)
@pytest.mark.parametrize(
    ("part", "hint"),
    [
        ("qkv", "three d_model × d_model matrices in each layer"),
        ("attention_scores", "every query of a sequence with every key of it, in each head; nothing off for a causal mask"),
        ("attention_values", "seq × seq probabilities times seq values, in each head"),
        ("attention_output", "one d_model × d_model matrix in each layer"),
        ("lm_head", "once, after the last layer; a tied matrix is multiplied by as well"),
    ],
)
def test_transformer_part(student, rng, part, hint):
    """Each part is the sum of its products over batch, heads and layers, for a sequence of the length given."""
    for options in ({}, {"tied_embeddings": True}, {"gated_ffn": True}):
        config = config_of(rng, **options)
        batch, seq = sizes(rng, 2, 2, 14)
        check_part(student, part, config, batch, seq, hint)
    check_part(student, part, {**config, "num_heads": 1}, batch, config["context_length"], hint)


def test_transformer_ffn(student, rng):
    """The FFN is two matrices in each layer, and three where it is gated."""
    for gated in (False, True):
        config = config_of(rng, gated_ffn=gated)
        batch, seq = sizes(rng, 2, 2, 14)
        hint = "a gated FFN has two matrices up and one down"
        check_part(student, "ffn", config, batch, seq, hint)
    default = {name: value for name, value in config.items() if name != "gated_ffn"}
    check_part(student, "ffn", default, batch, seq, "without gated_ffn there are two")


def test_transformer_parts_are_these_six(student, rng):
    """The answer has one entry for each of the six parts and no other, so that their sum is the forward pass."""
    config = config_of(rng)
    got = student.run(probes.transformer, config=config, batch=2, seq=3)
    keys = sorted(got) if type(got) is dict else got
    expect.value(keys, sorted(parts_of(config, 2, 3)), of="transformer_forward_flops", hint="the six keys of the docstring")


def test_transformer_of_nothing(student, rng):
    """No sequences, or empty ones, take no FLOPs."""
    config = config_of(rng)
    for batch, seq in [(0, 3), (2, 0)]:
        got = student.run(probes.transformer, config=config, batch=batch, seq=seq)
        total = sum(got.values()) if type(got) is dict else got
        expect.value(total, 0, of="transformer_forward_flops", hint="0 is a right count")


def test_transformer_refuses_wrong_calls(student, rng):
    """A negative count, a sequence over the context length, and heads that do not divide d_model are a ValueError."""
    config = config_of(rng)
    student.run(probes.transformer, config=config, batch=2, seq=3)
    wrong_calls = [
        ("batch", "batch is negative", {}, -1, 3),
        ("seq", "seq is negative", {}, 2, -3),
        ("seq", "seq is more than the context length", {}, 2, config["context_length"] + 1),
        ("num_heads", "num_heads does not divide d_model", {"d_model": 7 * 13, "num_heads": 3}, 2, 3),
        ("num_heads", "num_heads is 0", {"num_heads": 0}, 2, 3),
        *((name, f"{name} is negative", {name: -config[name]}, 2, 3) for name in CONFIG if name != "context_length"),
    ]
    for naming, when, change, batch, seq in wrong_calls:
        with expect.raises(ValueError, of="transformer_forward_flops", when=when, naming=naming):
            student.run(probes.transformer, config={**config, **change}, batch=batch, seq=seq)


# --- training_flops and all of them


def test_training_takes_six_flops_for_a_parameter_and_a_token(student, rng):
    """Training takes 2 FLOPs forward and 4 backward for each parameter and token."""
    for n, d in [sizes(rng, 2, 2, 1000), (0, 5), (5, 0), (70_000_000_000, 15_000_000_000_000)]:
        for options in ({}, {"recompute_forward": False}):
            expect.value(student.flop_counting.training_flops(n, d, **options), 6 * n * d, of="training_flops")


def test_training_with_recomputation_takes_eight(student, rng):
    """A forward pass that runs once more in the backward pass adds 2 FLOPs for each parameter and token."""
    for n, d in [sizes(rng, 2, 2, 1000), (70_000_000_001, 15_000_000_000_001)]:
        got = student.flop_counting.training_flops(n, d, recompute_forward=True)
        expect.value(got, 8 * n * d, of="training_flops", hint="which pass runs once more, and how many FLOPs is that?")


def test_training_refuses_negative_counts(student):
    """A negative count is a ValueError that names it."""
    student.flop_counting.training_flops(3, 4)
    for naming, args in [("num_parameters", (-3, 4)), ("num_tokens", (3, -4)), ("num_parameters", (-3, -4))]:
        when = f"{naming} is negative"
        with expect.raises(ValueError, of="training_flops", when=when, naming=naming if max(args) > 0 else None):
            student.flop_counting.training_flops(*args)


def test_large_counts_are_exact(student, rng):
    """FLOPs are Python integers, exact past 2**53 where floats stop being so, and past 2**63 where int64 does."""
    # Each count has a product of these odd sizes as a factor. The product is odd and past 2**53, so no number that was
    # rounded to a float, or that lost what is above 64 bits, has it.
    a, b, c, d = (2**31 + 2 * i + 1 for i in sizes(rng, 4, 1, 1000))
    config = dict(zip(CONFIG, (b, a + 1, 5, 3 * c, 3, d), strict=True))
    parts = student.run(probes.transformer, config=config, batch=7, seq=a)
    counts = [
        ("matmul_flops", a * b * c * d, student.flop_counting.matmul_flops((a, b, c), (c, d))),
        ("linear_flops", a * b * c, student.flop_counting.linear_flops(a, b, c)),
        ("mlp_flops", a * b * c, student.flop_counting.mlp_flops(a, (b, c))),
        *(("transformer_forward_flops", a * c, part) for part in (parts.values() if type(parts) is dict else [parts])),
        ("training_flops", a * b, student.flop_counting.training_flops(a, b)),
        ("training_flops", a * b, student.flop_counting.training_flops(a, b, recompute_forward=True)),
    ]
    for of, factor, got in counts:
        expect.that(type(got) is int, f"a count is {expect.type_name(got)}, not an int", of=of)
        hint = "integers all the way: no float, no numpy integer, no tensor"
        expect.that(got > 0 and got % factor == 0, "a large count is not exact", of=of, hint=hint)
