"""autograd: manual backward passes, numerical and intermediate gradients, gradients in chunks.

Accepted on purpose, because the result is the same: einsum, matmul, loops or numpy, with any layout
of the result; a pair as a list; an aten operator count of 0, which is what work outside torch looks
like; forward with setup_context or without; numerical_gradient calling the function with copies or
with the inputs themselves, in any order and any number of times; hooks on modules, on tensors or
none at all; zeros created explicitly or materialized by autograd; a .grad that is replaced; chunks
in any order.

linear_backward and mlp_backward, which must not use a graph, are called in inference mode, where
autograd records nothing. So code that hides its use of autograd from the grader fails as well.

The oracle is autograd on torch's own operators in float64. Each input has 12 bits, so every product
of up to three inputs, and every sum of a few such products, fits into the 53 bits of a float64.
Therefore all right answers agree to the last bit and the tolerance is 0. Scaling by a power of two
does not change that.
"""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kit import expect
from kit.student import call_and_keep_inputs
from tests.probes import autograd as probes

# Numbers below 200 after fewer than 1000 roundings, each of relative size 1.1e-16: 1000 · 1.1e-16 ·
# 200 < 1e-10.
CHUNKS_TOLERANCE = 1e-10
RTOL32 = torch.finfo(torch.float32).eps
SCALES = (1.0, 2.0**-27, 2.0**-13, 2.0**13)  # magnitudes of gradients in training: 7e-9 to 8e3


def exact(rng, *shape):
    """Numbers of 12 bits between -2 and 2, in float64."""
    return torch.randint(-2048, 2049, shape, generator=rng).double() / 1024


def small(rng, *shape):
    """Numbers 1 and 2: even float16 and bfloat16 hold sums of a few of their products exactly."""
    return torch.randint(1, 3, shape, generator=rng).double()


def scales(count):
    """For that many tensors, each of SCALES for the last one, then a large and a tiny one for all
    the others.
    """
    others = count - 1
    of_the_last = [[1.0] * others + [scale] for scale in SCALES]
    return of_the_last + [[scale] * others + [1.0] for scale in (2.0**13, 2.0**-27)]


def spread(x):
    """The same numbers, not contiguous and with an offset in their storage."""
    wide = torch.full((*x.shape, 2), 7, dtype=x.dtype)
    wide[..., 1] = x
    return wide[..., 1]


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def gradients_of(f, inputs, upstream):
    """The gradients that autograd computes."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad((f(*leaves) * upstream).sum(), leaves)


def pair(got, *, of):
    """Check that `got` is a pair of gradients, and return it."""
    expect.kind(got, (tuple, list), of=of, name="the gradients")
    expect.that(len(got) == 2, f"expected two gradients, got {len(got)}", of=of)
    return got


def a_tensor(got, *, of, shape=None):
    """Check that a gradient is usable as the reference for another of the student's answers.

    Comparing with it, instead of the right gradient, keeps one mistake from costing points twice.
    """
    expect.kind(got, torch.Tensor, of=of, name="a gradient")
    fits = shape is None or got.shape == shape
    expect.that(fits and got.is_floating_point(), "a gradient has the wrong shape or dtype", of=of)
    filled = (
        got.device.type != "meta"
        and got.layout == torch.strided
        and bool(got.isfinite().all())
        and bool(got.any())
    )
    expect.that(filled, "a gradient is 0 everywhere, or not finite", of=of)
    return got


# --- linear_backward and mlp_backward


def linear_inputs(rng, leading):
    """x, weight and grad_output of a linear layer, with these leading dimensions."""
    i, o = sizes(rng, 2)
    return exact(rng, *leading, i), exact(rng, o, i), exact(rng, *leading, o)


def check_linear_backward(student, calls, *, hint, **options):
    results = student.run(probes.by_hand, function="linear_backward", calls=calls, **options)
    for (x, weight, upstream), got in zip(calls, results, strict=True):
        expected_x, expected_weight = gradients_of(F.linear, (x, weight), upstream)
        grad_x, grad_weight = pair(got, of="linear_backward")
        expect.tensor(grad_x, expected_x, of="linear_backward", name="the gradient of x", hint=hint)
        which = "the gradient of weight"
        expect.tensor(grad_weight, expected_weight, of="linear_backward", name=which, hint=hint)


# Stays: this test checks the plain rule. A mistake in it also breaks leading dimensions, but not
# the other way round.
@pytest.mark.core
@pytest.mark.points(8)
def test_linear_backward_of_a_batch(student, rng):
    """For y = x Wᵀ and upstream gradient G, the gradients are G W for x and Gᵀ x for W."""
    hint = (
        "G W and Gᵀ x, by hand: which shape does each factor have? Do not rescale or clamp any "
        "number"
    )
    calls = []
    for of_each in scales(3):
        inputs = linear_inputs(rng, sizes(rng, 1))
        calls.append([x * scale for x, scale in zip(inputs, of_each, strict=True)])
    check_linear_backward(student, calls, hint=hint)


# Stays: the test of two dimensions needs no sum over leading ones, and in the test of unusual
# strides another mistake could be the cause.
@pytest.mark.core
@pytest.mark.points(4)
def test_linear_backward_for_any_leading_dimensions(student, rng):
    """x may have no, one or several leading dimensions; the gradient of W sums over all of them.

    Any size may be 1, and a leading one 0: an expert without tokens.
    """
    hint = "every vector of x was multiplied by the same weight"
    calls = [linear_inputs(rng, leading) for leading in [(), (1,), (2, 5, 3), (0,), (2, 0, 3)]]
    i, o = sizes(rng, 2)
    calls += [
        [exact(rng, *shape) for shape in shapes]
        for shapes in [((3, 1), (o, 1), (3, o)), ((2, 3, i), (1, i), (2, 3, 1))]
    ]
    check_linear_backward(student, calls, hint=hint, need_input_grad=True)


@pytest.mark.points(2)
def test_linear_backward_for_any_strides(student, rng):
    """x, weight and grad_output may be non-contiguous, views, or one tensor.

    If they require a gradient, the answers are the same.
    """
    i, o = sizes(rng, 2)
    turned = (
        exact(rng, i, 3, 4).permute(2, 1, 0),
        exact(rng, i, o).T,
        exact(rng, 3, o, 4).permute(2, 0, 1),
    )
    expanded = exact(rng, 4, i), exact(rng, o, i), exact(rng, 1, 1).expand(4, o)
    repeated = exact(rng, 1, i).expand(4, i), exact(rng, 1, i).expand(o, i), exact(rng, 4, o)
    square, zeros = exact(rng, i, i), [torch.zeros_like(x) for x in turned]
    squares = [exact(rng, i, i) for _ in range(3)]
    views = [spread(x) for x in linear_inputs(rng, (4,))]
    calls = [turned, expanded, repeated, views, [square] * 3, squares, zeros]
    check_linear_backward(student, calls, hint="reshape copies if it has to; view does not")
    hint = "what is different in grad mode?"
    check_linear_backward(student, [views, turned], graph=True, hint=hint)


def those_judged(results, number, *, of):
    """The results of a probe that reports None for a later call that another test judges."""
    expect.parts(results, number, of=of)
    expect.that(results[0] is not None, "no result of the first call", of=of)
    return [got for got in results if got is not None]


@pytest.mark.core
@pytest.mark.points(4)
def test_linear_backward_computes_only_what_is_asked_for(student, rng):
    """With need_input_grad=False the first gradient is None and its product is not computed.

    This holds for any leading dimensions and strides.
    """
    leading = [sizes(rng, 1), (), (0,), (2, 3)]
    calls = [linear_inputs(rng, these) for these in leading]
    x, weight, upstream = linear_inputs(rng, (2, 3))
    calls.append([x.transpose(0, 1), weight, upstream.transpose(0, 1)])
    results = student.run(probes.linear_backward_by_need, calls=calls)
    for got in those_judged(results, len(calls), of="linear_backward"):
        first, second = pair(got["weight_alone"], of="linear_backward")
        expect.that(
            first is None,
            "a gradient of x although need_input_grad is False",
            of="linear_backward",
            hint="return None",
        )
        own = pair(got["both"], of="linear_backward")[1]
        expect.kind(own, torch.Tensor, of="linear_backward", name="a gradient")
        if own.any():  # not for an empty batch
            a_tensor(own, of="linear_backward")
        expect.tensor(
            second, own, of="linear_backward", name="the gradient of weight without that of x"
        )
        fewer = got["products_for_weight"] < got["products_for_both"]
        reason = "need_input_grad=False does not save a product"
        expect.that(
            fewer or got["products_for_both"] == 0,
            reason,
            of="linear_backward",
            hint="is the gradient of x computed and then thrown away?",
        )


def mlp_shapes(rng):
    """The shapes of x, w1, w2 and grad_output."""
    return shapes_of_mlp(*sizes(rng, 4))


def shapes_of_mlp(n, i, h, o):
    return (n, i), (h, i), (o, h), (n, o)


@pytest.mark.core
@pytest.mark.points(8)
def test_mlp_backward_of_a_batch(student, rng):
    """mlp_backward returns the gradients of both weights of relu(x w1ᵀ) w2ᵀ."""
    calls = []
    for of_each in scales(4):
        inputs = [exact(rng, *shape) for shape in mlp_shapes(rng)]
        calls.append([x * s for x, s in zip(inputs, of_each, strict=True)])
    check_mlp_backward(student, calls)


def check_mlp_backward(student, calls, **options):
    results = student.run(probes.by_hand, function="mlp_backward", calls=calls, **options)
    for (x, w1, w2, upstream), got in zip(calls, results, strict=True):
        grad_w1, grad_w2 = pair(got, of="mlp_backward")
        expected = gradients_of(
            lambda w1, w2, x=x: F.linear(F.linear(x, w1).relu(), w2), (w1, w2), upstream
        )
        hint = (
            "the input of w2 is the hidden units after relu; on the way to w1, relu passes a "
            "gradient only where its input was above 0"
        )
        expect.tensor(grad_w2, expected[1], of="mlp_backward", name="the gradient of w2", hint=hint)
        expect.tensor(grad_w1, expected[0], of="mlp_backward", name="the gradient of w1", hint=hint)


@pytest.mark.points(2)
def test_mlp_backward_of_any_batch(student, rng):
    """Batches may be empty, sizes may be 1, and inputs may be views or require a gradient."""
    n, i, h, o = sizes(rng, 4)
    calls = [
        [exact(rng, *shape) for shape in shapes_of_mlp(*sized)]
        for sized in [(0, i, h, o), (1, 1, h, 1), (n, i, 1, o)]
    ]
    calls.append([x.half() for x in calls[0]])
    square, inputs = exact(rng, h, h), [exact(rng, *shape) for shape in mlp_shapes(rng)]
    views = [spread(x) for x in inputs]
    expanded = [x[:1].expand(x.shape) for x in inputs]
    zeros = [torch.zeros_like(x) for x in inputs]
    squares = [exact(rng, h, h) for _ in range(4)]
    check_mlp_backward(student, [*calls, views, expanded, [square] * 4, squares, zeros])
    check_mlp_backward(student, [inputs, views], graph=True)


@pytest.mark.points(2)
def test_mlp_backward_where_relu_is_exactly_at_zero(student, rng):
    """Where relu's input is exactly 0, its gradient is 0, as in torch.

    This is so for a unit that is 0 for all rows, and for units that are 0 for one row. It is not so
    for a unit just above 0.
    """
    of = "mlp_backward"
    x, w1, w2, upstream = (exact(rng, *shape).abs() + 1 for shape in mlp_shapes(rng))
    w1[0] = 0
    w1[:, 1] = w1[:, 0]
    x[0] = 0
    x[0, :2] = torch.tensor([1.0, -1.0])
    calls = [(x, w1, w2, upstream), (x[1:], w1, w2, upstream[1:]), (x, w1 / 2.0**200, w2, upstream)]
    results = student.run(probes.by_hand, function=of, calls=calls)
    grad_w1, without, just_above = (a_tensor(pair(got, of=of)[0], of=of) for got in results)
    name, hint = "the gradient of w1 for a unit at 0", "what is the slope of relu at 0?"
    expect.tensor(grad_w1[0], torch.zeros_like(w1[0]), of=of, name=name, hint=hint)
    name = "the gradient of w1 with one more row, for which all units are 0"
    expect.tensor(grad_w1, without, of=of, name=name, hint=hint)
    name = "the gradient of w1 where units are just above 0"
    expect.tensor(just_above, grad_w1, of=of, name=name, hint="compare with 0 in the inputs' dtype")


@pytest.mark.points(2)
def test_by_hand_in_the_dtype_of_the_inputs(student, rng):
    """linear_backward and mlp_backward compute and return gradients in their inputs' dtype."""
    # Half precision is exact for these, and no unit is dead. Some numbers are small.
    n, i, h, o = sizes(rng, 4, 2, 6)
    linear = [small(rng, *shape) for shape in [(2, n, i), (o, i), (2, n, o)]]
    mlp = [small(rng, *shape) for shape in shapes_of_mlp(n, i, h, o)]
    hint = "compute in the dtype of the inputs"
    for function, args, of_weight in [("linear_backward", linear, 1), ("mlp_backward", mlp, 0)]:
        args[0] *= 2.0**-13
        # Gᵀ x depends on the last bits of x, which float32 does not have.
        calls = [args, [args[0] * (1 + 2.0**-40), *args[1:]]]
        dtypes = torch.float32, torch.bfloat16, torch.float16
        calls += [[x.to(dtype) for x in args] for dtype in dtypes]
        results = student.run(probes.by_hand, function=function, calls=calls)
        own, other, *narrow = (pair(got, of=function) for got in results)
        first, second = (a_tensor(got[of_weight], of=function).double() for got in (own, other))
        reason = "float64 inputs have lost digits"
        expect.that(not torch.equal(first, second), reason, of=function, hint=hint)
        for got, dtype in zip(narrow, dtypes, strict=True):
            for gradient, wide in zip(got, own, strict=True):
                expected = a_tensor(wide, of=function).to(dtype)
                expect.tensor(gradient, expected, of=function, name="a gradient", hint=hint)


@pytest.mark.points(2)
def test_leaves_its_inputs_as_they_were(student, rng):
    """The backward passes and accumulate_gradients change no input and no random generator."""
    mlp = [exact(rng, *shape).abs() + 1 for shape in mlp_shapes(rng)]
    vector, batch = linear_inputs(rng, ()), linear_inputs(rng, (3,))
    for function, args in [
        ("linear_backward", batch),
        ("mlp_backward", mlp),
        ("linear_backward", vector),
    ]:
        given = tuple(x.clone() for x in args)
        got = student.run(call_and_keep_inputs, module="autograd", function=function, args=given)
        for gradient in pair(got["result"], of=function):
            a_tensor(gradient, of=function)
        for x, before in zip(got["inputs"], args, strict=True):
            expect.tensor(
                x,
                before,
                of=function,
                name="an input after the call",
                hint="is something changed in place?",
            )
        expect.generators_left(got["generators_changed"], of=function)
    shapes = [(3, 4), (4, 5), (3, 5)]
    operands = {
        name: exact(rng, *s) for name, s in zip(("a", "b", "upstream"), shapes, strict=True)
    }
    (got,) = student.run(probes.matmul_each, calls=[operands])
    for gradient in got["gradients"]:
        a_tensor(gradient, of="MatMul.backward")
    for x, before in zip(got["inputs"], operands.values(), strict=True):
        expect.tensor(x, before, of="MatMul", name="an operand or the upstream gradient afterwards")
    inputs = chunk_inputs(rng, 6)
    (got,) = accumulate(student, [{**inputs, "micro_batch_size": 2}])
    for gradient in got["gradients"]:
        a_tensor(gradient, of="accumulate_gradients")
    for name in ("x", "y"):
        expect.tensor(
            got[name], inputs[name], of="accumulate_gradients", name=f"{name} after the call"
        )
    expect.generators_left(got["generators_changed"], of="accumulate_gradients")


# --- MatMul


def check_matmul(student, calls, rng, *, hint=None):
    """Check that the products and both gradients are those of torch.matmul.

    A call has a and b, and may have an upstream gradient and options of the probe.
    """
    for call in calls:
        # torch.broadcast_shapes would import sympy, which takes longer than the test.
        shape = np.broadcast_shapes(call["a"].shape[:-2], call["b"].shape[:-2])
        shape = *shape, call["a"].shape[-2], call["b"].shape[-1]
        if "upstream" not in call:
            call["upstream"] = exact(rng, *shape).to(call["a"].dtype)
    for call, got in zip(calls, student.run(probes.matmul_each, calls=calls), strict=True):
        a, b, upstream = call["a"], call["b"], call["upstream"]
        expected = a @ b
        expect.tensor(got["output"], expected, of="MatMul.forward", name="the product")
        if call.get("layout") == "expanded":
            upstream = upstream.flatten()[0].expand(expected.shape)
        wants = gradients_of(torch.matmul, (a, b), upstream)
        for name, gradient, want in zip("ab", got["gradients"], wants, strict=True):
            which = f"the gradient of {name}"
            expect.tensor(gradient, want, of="MatMul.backward", name=which, hint=hint)


def operands(rng, *shapes):
    """The operands of a product."""
    return dict(zip("ab", (exact(rng, *shape) for shape in shapes), strict=True))


# Stays: this test checks the plain rule. A mistake in it also breaks batches, but not the other way
# round.
@pytest.mark.core
@pytest.mark.points(8)
def test_matmul_of_matrices(student, rng):
    """For two matrices and an upstream gradient G, the gradients are G bᵀ for a and aᵀ G for b."""
    hint = "G bᵀ and aᵀ G: which shape does each factor have? Do not rescale or clamp any number"
    calls = []
    for a, b, c in scales(3):
        m, k, n = sizes(rng, 3)
        upstream = exact(rng, m, n) * c
        calls.append({"a": exact(rng, m, k) * a, "b": exact(rng, k, n) * b, "upstream": upstream})
    check_matmul(student, calls, rng, hint=hint)


# Stays: this test needs only batches; code that handles strides or broadcasting wrongly can still
# pass it.
@pytest.mark.core
@pytest.mark.points(4)
def test_matmul_of_batches(student, rng):
    """MatMul and its gradients work for operands with equal leading dimensions.

    A batch may be empty, any size may be 1, and the dtype may be any.
    """
    m, k, n, batch, heads = sizes(rng, 5)
    hint = "ᵀ swaps the last two dimensions and keeps the others"
    calls = [
        operands(rng, (*leading, m, k), (*leading, k, n))
        for leading in [(batch,), (batch, heads), (0,), (1, 1)]
    ]
    calls += [
        operands(rng, (batch, 1, k), (batch, k, 1)),
        operands(rng, (m, 1), (1, n)),
        operands(rng, (0, k), (k, n)),
    ]
    m, k, n = sizes(rng, 3, 2, 6)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        shapes = {"a": (2, m, k), "b": (2, k, n), "upstream": (2, m, n)}
        calls.append({name: small(rng, *shape).to(dtype) for name, shape in shapes.items()})
    check_matmul(student, calls, rng, hint=hint)


@pytest.mark.points(2)
def test_matmul_of_any_strides(student, rng):
    """Operands and upstream gradients may be non-contiguous or expanded."""
    m, k, n, batch, heads = sizes(rng, 5)
    hint = "nothing has to be contiguous"
    upstream = exact(rng, m, batch, n).transpose(0, 1)
    turned = exact(rng, n, heads, m, batch).permute(3, 1, 2, 0)
    four = operands(rng, (batch, heads, m, k), (batch, heads, k, n))
    calls = [
        {
            "a": exact(rng, k, m, batch).permute(2, 1, 0),
            "b": exact(rng, batch, n, k).mT,
            "upstream": exact(rng, n, batch, m).permute(1, 2, 0),
        },
        # One b for all a, and one a for all b.
        {**operands(rng, (batch, m, k), (k, n)), "upstream": upstream},
        {**operands(rng, (m, k), (batch, heads, k, n)), "upstream": turned},
        {**four, "upstream": turned},
        {**four, "layout": "expanded"},
        {**operands(rng, (batch, m, k), (k, n)), "layout": "expanded"},
    ]
    square = exact(rng, k, k)
    expanded = exact(rng, 1, k).expand(m, k), exact(rng, 1, n).expand(k, n)
    views = spread(exact(rng, m, k)), spread(exact(rng, k, n))
    empty = torch.zeros(m, k).double(), torch.zeros(k, n).double()
    for a, b in (expanded, views, (square, square), empty):
        calls.append({"a": a, "b": b, "upstream": spread(exact(rng, len(a), b.shape[-1]))})
    zeros = torch.zeros(m, n, dtype=torch.float64)
    calls.append({"a": views[0], "b": views[1], "upstream": zeros})
    check_matmul(student, calls, rng, hint=hint)
    hint = "ctx belongs to one product, and its backward pass may run again"
    calls = [
        {**operands(rng, *shapes), "another": True}
        for shapes in [((m, k), (k, n)), ((batch, m, k), (k, n)), ((m, k), (batch, 1, k, n))]
    ]
    check_matmul(student, calls, rng, hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_matmul_of_broadcast_operands(student, rng):
    """The gradient of a broadcast operand is the sum over all the places where it was used."""
    m, k, n, batch, heads = sizes(rng, 5)
    calls = [
        operands(rng, (*leading_a, m, k), (*leading_b, k, n))
        for leading_a, leading_b in [
            ((batch,), ()),
            ((), (batch, heads)),
            ((batch, heads), (heads,)),
            ((batch, 1), (heads,)),
            ((1, heads), (batch, 1)),
            ((1,), (batch,)),
            ((batch, heads), (1,)),
            ((1, heads), (2, batch, 1)),
            ((1,), ()),
            ((0,), ()),
            ((1,), (0,)),
        ]
    ]
    hint = "sum over the broadcast dimensions: missing ones, and those of size 1"
    check_matmul(student, calls, rng, hint=hint)


@pytest.mark.core
@pytest.mark.points(4)
def test_matmul_computes_only_the_gradients_asked_for(student, rng):
    """If an operand needs no gradient, backward returns None for it and skips its product.

    This holds for matrices, batches and broadcast operands.
    """
    of = "MatMul.backward"
    m, k, n, batch = sizes(rng, 4)
    leading = [((), ()), ((batch,), (batch,)), ((batch,), ()), ((1,), (batch,))]
    given = [
        (exact(rng, *of_a, m, k), exact(rng, *of_b, k, n), exact(rng, *(of_a and (batch,)), m, n))
        for of_a, of_b in leading
    ]
    results = student.run(probes.matmul_by_need, operands=given)
    judged = those_judged(results, len(given), of=of)
    for (both, *alone), wanted in itertools.product(judged, (0, 1)):
        which, got = "ab"[wanted], alone[wanted]
        own = a_tensor(both["gradients"][wanted], of=of)
        expect.tensor(got["gradients"][wanted], own, of=of, name=f"the gradient of {which} alone")
        expect.that(
            len(got["returned"]) == 1, "backward did not run once in one backward pass", of=of
        )
        unasked = pair(got["returned"][0], of=of)[1 - wanted]
        expect.that(
            unasked is None, "a gradient that was not requested", of=of, hint="ctx.needs_input_grad"
        )
        fewer = got["products"] < both["products"] or both["products"] == 0
        reason = "the product for a gradient that was not requested is computed"
        expect.that(
            fewer,
            reason,
            of=of,
            hint="is it computed and then thrown away? See ctx.needs_input_grad",
        )


@pytest.mark.points(2)
def test_matmul_notices_operands_changed_in_place(student, rng):
    """Changing an operand in place between forward and backward raises an error."""
    m, k, n = sizes(rng, 3)
    a, b = exact(rng, m, k), exact(rng, k, n)
    call = {"a": a, "b": b, "upstream": exact(rng, m, n)}
    (got,) = student.run(probes.matmul_each, calls=[call])
    for gradient in got["gradients"]:
        a_tensor(gradient, of="MatMul.backward")
    turned = exact(rng, k, m).T, exact(rng, n, 2 * k)[:, ::2].T  # not contiguous
    batches = exact(rng, 3, m, k), exact(rng, k, n)
    one_a = exact(rng, m, k), exact(rng, 3, k, n)
    half = a.half(), b.half()
    given = [(a, b), turned, batches, one_a, half]
    results = student.run(probes.matmul_after_a_change, operands=given)
    expect.parts(results, 4 * len(given), of="MatMul")
    for raised in results:
        reason = "an operand changed in place after the forward pass goes unnoticed"
        expect.that(
            raised,
            reason,
            of="MatMul",
            hint="how does ctx save tensors so that autograd notices when they change?",
        )


# --- numerical_gradient


def leave_one_out(factors):
    """For each factor, the product of the others."""
    return [math.prod(factors[:i] + factors[i + 1 :]) for i in range(len(factors))]


def central_differences(inputs, cubic, linear, eps, factor=1.0):
    """Return the exact central differences, and the largest rounding error of a right answer.

    ((x + e)³ - (x - e)³) / 2e = 3x² + e², and the product of sums is linear in each element. The
    function's value and all intermediate ones are below M = Σ|c|(|x| + e)³ + |factor| Π(1 +
    Σ|c|(|x| + e)), and take at most n + 20 roundings of 1.1e-16, where n is the number of elements.
    These include x + e and x - e, whose relative error counts up to three times. So each value has
    an error of at most err = (n + 20) · 1.1e-16 · M, and the difference quotient one of 2 · err /
    2e = err / e.
    """
    wide = [x.double() for x in inputs]
    others = leave_one_out([1 + float((c * x).sum()) for c, x in zip(linear, wide, strict=True)])
    slopes = [
        c3 * (3 * x**2 + eps**2) + factor * others * c1
        for c3, c1, x, others in zip(cubic, linear, wide, others, strict=True)
    ]
    reach = [x.abs() + eps for x in wide]
    largest = sum(float((c.abs() * x**3).sum()) for c, x in zip(cubic, reach, strict=True))
    largest += abs(factor) * math.prod(
        1 + float((c.abs() * x).sum()) for c, x in zip(linear, reach, strict=True)
    )
    roundings = sum(x.numel() for x in inputs) + 20
    return slopes, 4 * roundings * 1.2e-16 * largest / eps


def check_differences(got, expected, inputs, *, atol, hint, dtype_matters=False):
    """Check the gradients up to rounding. Only one test judges their dtype."""
    result, of = got["result"], "numerical_gradient"
    expect.kind(result, (tuple, list), of=of, name="the gradients")
    expect.that(
        len(result) == len(inputs), f"{len(result)} gradients for {len(inputs)} inputs", of=of
    )
    for gradient, want, x in zip(result, expected, inputs, strict=True):
        expect.kind(gradient, torch.Tensor, of=of, name="a gradient")
        dtype = x.dtype if dtype_matters or not gradient.is_floating_point() else gradient.dtype
        expect.tensor(
            gradient, want.to(dtype), of=of, atol=atol, rtol=RTOL32, name="a gradient", hint=hint
        )


def uniform(rng, *shape):
    """Draw float64 numbers with absolute values between 0.5 and 1.5 and random signs."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs


def difference_inputs(rng, inputs):
    """Coefficients for a function of these inputs."""
    return {key: [uniform(rng, *x.shape) for x in inputs] for key in ("cubic", "linear")}


@pytest.mark.core
@pytest.mark.points(4)
def test_numerical_gradient_of_several_inputs(student, rng):
    """The result has one gradient per input, with that input's shape and dtype."""
    a, b = sizes(rng, 2)
    shapes = [((a, b), torch.float64), ((), torch.float32), ((1, b, 1), torch.float64)]
    # Nothing is rounded here, even in float32: inputs have few bits, the function is only a product
    # of sums, and eps is a power of two.
    inputs = [torch.randint(-8, 9, shape, generator=rng).to(dtype) / 8 for shape, dtype in shapes]
    linear = [torch.randint(1, 4, shape, generator=rng).to(dtype) for shape, dtype in shapes]
    cubic = [torch.zeros_like(x) for x in inputs]
    calls = [
        {
            "inputs": inputs[:count],
            "cubic": cubic[:count],
            "linear": linear[:count],
            "eps": 2.0**-6,
            "factor": 0.5,
        }
        for count in (3, 2, 1)
    ]
    check_exact_differences(student, calls)


@pytest.mark.points(2)
def test_numerical_gradient_of_any_inputs(student, rng):
    """Inputs may be of any dtype and size, zeros, large or tiny, a tuple, and eps may be an int.

    f may return its input itself, or a view of it.
    """
    halves = [torch.randint(1, 8, (2,), generator=rng) / 8 for _ in range(2)]
    inputs = [halves[0].half(), halves[1].bfloat16(), torch.zeros(0, 3).double(), torch.zeros(())]
    args = {"linear": [torch.ones_like(x) for x in inputs], "eps": 2.0**-6, "factor": 0.5}
    calls = [{"inputs": inputs, **args, "as_tuple": True, "grad_mode": False}]
    tiny = torch.tensor([2.0**-20, -(2.0**-20)])
    wide = torch.tensor([2.0**20, 1.0, 0.0, -0.5])
    for x, eps in [(wide, 1), (wide, 1.0), (torch.zeros(3), 0.5), (tiny, 2.0**-20)]:
        linear = [torch.randint(1, 4, x.shape, generator=rng).double()]
        call = {"inputs": [x.double()], "linear": linear, "eps": eps}
        calls += [{**call, "requires_grad": requires_grad} for requires_grad in (False, True)]
    check_exact_differences(student, calls)
    for x in (
        torch.tensor(2.0, dtype=torch.float64),
        torch.tensor([3.0, 4.0], dtype=torch.float64),
    ):
        got = student.run(probes.numerical_gradient_of_an_element, x=x, eps=0.5)
        expected = torch.zeros_like(x)
        expected.view(-1)[0] = 1
        hint = "f(x + eps) may be a view of your own tensor: is it read before that changes?"
        check_differences({"result": got}, [expected], [x], atol=0.0, hint=hint)


def check_exact_differences(student, calls):
    """Check gradients of a function of so few bits that nothing is rounded, and their dtypes."""
    of_f = "inputs", "cubic", "linear", "eps", "factor"
    calls = [
        {"cubic": [torch.zeros_like(x) for x in call["inputs"]], "factor": 1.0, **call}
        for call in calls
    ]
    results = student.run(probes.numerical_gradient_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        expected, _ = central_differences(**{name: call[name] for name in of_f})
        hint = "change one element at a time, and keep all other inputs as they are"
        check_differences(got, expected, call["inputs"], atol=0.0, hint=hint, dtype_matters=True)


@pytest.mark.core
@pytest.mark.points(8)
def test_numerical_gradient_takes_central_differences(student, rng):
    """The step is eps to either side: for c·x³ the result is 3c·x² + c·eps²."""
    inputs = [uniform(rng, 3, 2), uniform(rng, 4)]
    calls = []
    for eps, scale in [
        (0.25, 1.0),
        (1e-2, 1.0),
        (1e-4, 1.0),
        *((1e-2, scale) for scale in SCALES[1:]),
    ]:
        coefficients = difference_inputs(rng, inputs)
        cubic = [c * scale for c in coefficients["cubic"]]
        calls.append(
            {"inputs": inputs, **coefficients, "cubic": cubic, "factor": scale, "eps": eps}
        )
    results = student.run(probes.numerical_gradient_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        expected, atol = central_differences(**call)
        hint = "(f(x + eps) - f(x - eps)) / (2 · eps), with the given eps, in full precision"
        check_differences(got, expected, inputs, atol=atol, hint=hint)


@pytest.mark.points(2)
def test_numerical_gradient_has_a_small_step_by_default(student, rng):
    """The default eps is 1e-6."""
    inputs = [uniform(rng, 3, 2), uniform(rng, 4)]
    coefficients = {
        **difference_inputs(rng, inputs),
        "linear": [torch.zeros_like(x) for x in inputs],
    }
    call = {"inputs": inputs, **coefficients}
    (got,) = student.run(probes.numerical_gradient_each, calls=[call])
    expected, atol = central_differences(inputs, **coefficients, eps=1e-6)
    check_differences(got, expected, inputs, atol=atol, hint="the default is part of the signature")


@pytest.mark.points(2)
def test_numerical_gradient_leaves_its_inputs_bit_equal(student, rng):
    """The call does not change a single bit of the inputs, and gives them no .grad."""
    line = uniform(rng, 5)
    sets = [
        [
            uniform(rng, 2, 3),
            torch.tensor([1e-17, -0.0, 3e2, 1 / 3], dtype=torch.float64),
            torch.tensor(1e-17, dtype=torch.float64),
        ],
        [uniform(rng, 2), uniform(rng, 3).float(), uniform(rng, 2, 2).half()],
        [uniform(rng, 2), uniform(rng, 5).bfloat16()],
        [uniform(rng, 4, 3).T, uniform(rng, 6)[::2]],
        [line[:3], line[1:], line],
        [uniform(rng, 2)],
    ]
    before = [[x.clone() for x in inputs] for inputs in sets]
    of, hint = "numerical_gradient", "x + eps - 2·eps + eps is not x"
    calls = []
    for inputs in sets:
        twice = len(inputs) == 1
        coefficients = difference_inputs(rng, [*inputs, *inputs[:twice]])
        call = {"inputs": inputs, **coefficients, "eps": 1e-3, "twice": twice}
        calls += [{**call, "requires_grad": leaf, "grad_mode": leaf} for leaf in (False, True)]
    results = student.run(probes.numerical_gradient_each, calls=calls)
    expect.parts(results, len(calls), of=of)
    for i, got in enumerate(results):
        inputs = before[i // 2]
        expect.kind(got["result"], (tuple, list), of=of, name="the gradients")
        expect.that(len(got["result"]) > 0, "no gradient was returned", of=of)
        slopes = a_tensor(got["result"][0], of=of, shape=inputs[0].shape)
        same = torch.equal(slopes.double(), inputs[0])
        expect.that(not same, "the gradient is the input itself", of=of)
        if i % 2:
            plain = results[i - 1]["result"]
            expect.that(len(plain) == len(got["result"]), "a gradient is missing", of=of)
            for gradient, own in zip(got["result"], plain, strict=True):
                expect.kind(own, torch.Tensor, of=of, name="a gradient")
                name = "the gradient of an input that requires one"
                expect.tensor(gradient, own, of=of, name=name, hint="requires_grad has no effect")
        expect.that(got["list_is_as_it_was"], "the list of inputs has changed", of=of)
        reason = "torch.is_grad_enabled() has changed"
        expect.that(got["grad_mode_is_the_same"], reason, of=of, hint="use torch.no_grad in a with")
        expect.generators_left(got["generators_changed"], of=of)
        listed = [*inputs, *inputs[: len(inputs) == 1]]
        for x, same in zip(got["inputs"], listed, strict=True):
            bits, same_bits = (x.flatten().contiguous().view(torch.uint8) for x in (x, same))
            expect.that(
                torch.equal(bits, same_bits),
                "an input has changed, if only by a bit",
                of=of,
                hint=hint,
            )
        expect.parts(got["gradients"], len(listed), of=of, name="inputs")
        expect.that(
            all(gradient is None for gradient in got["gradients"]),
            "an input has a .grad afterwards",
            of=of,
            hint="without autograd",
        )


@pytest.mark.points(2)
def test_numerical_gradient_of_inputs_that_are_not_contiguous(student, rng):
    """Inputs may be transposed, strided or expanded, and may share memory."""
    turned = [uniform(rng, 4, 3).T, uniform(rng, 6)[::2], uniform(rng, 2, 3, 2).permute(2, 0, 1)]
    line = uniform(rng, 5)
    strided = "reshape and flatten copy a non-contiguous tensor; does f then see your change?"
    shared = "all other elements stay unchanged, even if they are in the same memory"
    sets = [
        (turned, False, strided),
        ([uniform(rng, 1).expand(3), uniform(rng, 2, 1).expand(2, 2)], False, shared),
        ([line[:3], line[1:], line], False, shared),
        ([uniform(rng, 2), uniform(rng)], True, shared),
    ]
    seen = [[*inputs, *inputs[:twice]] for inputs, twice, _ in sets]
    coefficients = [
        {**difference_inputs(rng, these), "cubic": [torch.zeros_like(x) for x in these]}
        for these in seen
    ]
    calls = [
        {"inputs": inputs, **given, "eps": 1e-3, "twice": twice}
        for (inputs, twice, _), given in zip(sets, coefficients, strict=True)
    ]
    results = student.run(probes.numerical_gradient_each, calls=calls)
    for got, these, given, (*_, hint) in zip(results, seen, coefficients, sets, strict=True):
        expected, _ = central_differences(these, **given, eps=1e-3)
        # Another test judges the step size.
        _, atol = central_differences(these, **given, eps=1e-6)
        check_differences(got, expected, these, atol=atol, hint=hint)


# --- intermediate_gradients


def random_net(rng):
    """The arguments of a net of two blocks, and an input for it."""
    n, i, h, g, o, s = sizes(rng, 6, 3, 10)
    net = {
        "blocks": [exact(rng, h, i), exact(rng, g, h)],
        "side": exact(rng, s, g),
        "head": exact(rng, o, g),
    }
    return net, exact(rng, n, i)


def expected_intermediate(net, x):
    """The gradient of the sum of the net's output with respect to each submodule's output."""
    h, kept = x.clone().requires_grad_(), {}
    for i, weight in enumerate(net["blocks"]):
        kept[f"blocks.{i}.fc"] = h @ weight.T
        h = F.leaky_relu(kept[f"blocks.{i}.fc"], 0.25)
        kept[f"blocks.{i}.act"] = kept[f"blocks.{i}"] = h
    kept["side"] = h @ net["side"].T
    kept["head"] = h @ net["head"].T
    gradients = torch.autograd.grad(kept["head"].sum(), list(kept.values()), materialize_grads=True)
    return dict(zip(kept, gradients, strict=True))


def intermediate(student, calls):
    """Run intermediate_gradients, and check that it returns dicts with the names.

    A call has a net, x, names and options of the probe.
    """
    calls = [{**call, "net": {"inplace": False, **call["net"]}} for call in calls]
    results = student.run(probes.intermediate_gradients_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        check_names(got["result"], call["names"])
    return [got["result"] for got in results]


def check_names(result, names):
    """Check that the answer is a dict with exactly these names."""
    of = "intermediate_gradients"
    expect.kind(result, dict, of=of, name="the gradients")
    expect.that(set(result) == set(names), "its keys are not the given names", of=of)


def check_against_plain(student, rng, names, settings, *, hint):
    """Check that the gradients are those of the same net in a plain setting."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    calls = [{"net": net, "x": x, "names": names}]
    for setting in settings:
        options = dict(setting)
        in_place = {"inplace": options.pop("inplace", False)}
        calls.append({"net": {**net, **in_place}, "x": x, "names": names, **options})
    plain, *others = intermediate(student, calls)
    for name, got in itertools.product(names, others):
        own = a_tensor(plain[name], of=of)
        expect.tensor(got[name], own, of=of, name=f"the gradient of an output ({name})", hint=hint)


@pytest.mark.core
@pytest.mark.points(8)
def test_intermediate_gradients_of_named_submodules(student, rng):
    """Each result is the gradient of the net's summed output with respect to a submodule's output.

    Submodules may be nested.
    """
    several = ["blocks.1.act", "head", "blocks.0.fc", "blocks.1.fc", "blocks.0", "blocks.0.act"]
    calls = []
    for names, scale in [
        (several, 1.0),
        (["blocks.0.act"], 1.0),
        (["head"], 1.0),
        *((several, s) for s in SCALES[1:]),
    ]:
        net, x = random_net(rng)
        calls.append({"net": {**net, "head": net["head"] * scale}, "x": x, "names": names})
    for call, got in zip(calls, intermediate(student, calls), strict=True):
        expected = expected_intermediate(call["net"], call["x"])
        for name in call["names"]:
            which, hint = (
                f"the gradient of an output ({name})",
                "the gradient of the sum, not of the mean, with respect to the "
                "submodule's output, not its input",
            )
            expect.tensor(
                got[name], expected[name], of="intermediate_gradients", name=which, hint=hint
            )


def check_as_it_was(got, *, when=""):
    """Check that a module's hooks, attributes, modes and requires_grad have not changed."""
    of, before, after = "intermediate_gradients", got["before"], got["after"]
    hint = (
        "remove a hook with the handle that registering it returned, in a try … finally or a with"
    )
    expect.that(
        before["hooks"] == after["hooks"],
        f"the module's hooks have changed{when}",
        of=of,
        hint=hint,
    )
    expect.that(
        before["attributes"] == after["attributes"], f"its attributes have changed{when}", of=of
    )
    expect.that(
        before["training"] == after["training"], f"a mode (train or eval) has changed{when}", of=of
    )
    expect.that(
        before["requires_grad"] == after["requires_grad"], f"requires_grad has changed{when}", of=of
    )
    runs = after["runs"] - before["runs"]
    reason = f"a buffer has changed as in {runs} forward passes{when}"
    expect.that(runs <= 1, reason, of=of, hint="one forward pass is enough")
    expect.generators_left(got["generators_changed"], of=of)
    reason = f"torch.is_grad_enabled() has changed{when}"
    hint = "with torch.enable_grad(): puts the old mode back, even after an exception"
    expect.that(got["grad_mode_is_the_same"], reason, of=of, hint=hint)


# Stays: this is the plain case; the other tests look at the module after an error, or at .grad.
@pytest.mark.points(2)
def test_intermediate_gradients_leaves_the_module_as_it_was(student, rng):
    """intermediate_gradients removes only its own hooks and changes no mode and no requires_grad.

    The modes are those of the module, and torch's grad mode.
    """
    net, x = random_net(rng)
    names = ["blocks.0.fc", "head"]
    inputs = {"net": {**net, "inplace": False}, "x": x, "names": names}
    # Another test judges whether it works for a frozen module and under torch.no_grad().
    calls = [
        inputs,
        *({**inputs, **o, "fails": True} for o in ({"frozen": True}, {"grad_mode": False})),
    ]
    got, *others = results = student.run(probes.intermediate_gradients_each, calls=calls)
    expect.parts(results, len(calls), of="intermediate_gradients")
    check_names(got["result"], names)
    for name in names:
        a_tensor(got["result"][name], of="intermediate_gradients")
    for each in (got, *others):
        check_as_it_was(each)


@pytest.mark.points(1)
def test_intermediate_gradients_leaves_no_hook_after_an_error(student, rng):
    """After an error in the forward pass or for a name, no hook is left behind.

    The grad mode, each .grad and each requires_grad are the same as before.
    """
    net, x = random_net(rng)
    bad = {**net, "head": exact(rng, 3, net["head"].shape[1] + 1)}
    calls = [{"net": {**net, "inplace": False}, "x": x, "names": ["blocks.0.fc", "head"]}]
    for these, other in [(bad, "blocks.1"), (net, "no.such"), (net, "idle")]:
        call = {**calls[0], "net": {**these, "inplace": False}, "names": ["blocks.0.fc", other]}
        calls += [
            {**call, "fails": True, **options}
            for options in ({"gradients": True}, {"grad_mode": False, "frozen": True})
        ]
    plain, *others = results = student.run(probes.intermediate_gradients_each, calls=calls)
    expect.parts(results, len(calls), of="intermediate_gradients")
    check_names(plain["result"], calls[0]["names"])
    for got in others:
        check_as_it_was(got, when=" after an error")
        check_gradients_as_they_were(got, when=" after an error")


def check_gradients_as_they_were(got, *, when=" after the call"):
    """Check that .grad, x and whether x requires a gradient have not changed."""
    of, before, after = "intermediate_gradients", got["before"], got["after"]
    hint = "torch.autograd.grad returns gradients without storing them in .grad"
    rows = (
        [*before["gradients"], before["input_gradient"]],
        [*after["gradients"], after["input_gradient"]],
    )
    for old, new in zip(*rows, strict=True):
        if old is None:
            reason = f"a .grad that was None is no longer None{when}"
            expect.that(new is None, reason, of=of, hint=hint)
        else:
            expect.tensor(new, old, of=of, name=f"a .grad{when}", hint=hint)
    expect.tensor(after["input"], before["input"], of=of, name=f"x{when}")
    same = before["input_requires_grad"] == after["input_requires_grad"]
    reason = f"x.requires_grad has changed{when}"
    expect.that(same, reason, of=of, hint="x belongs to the caller")


# Stays: the test of errors looks at each .grad, too, but only after an error.
@pytest.mark.points(2)
def test_intermediate_gradients_touches_no_grad(student, rng):
    """intermediate_gradients changes neither x nor any .grad, whether it is None or a tensor."""
    net, x = random_net(rng)
    call = {"net": {**net, "inplace": False}, "x": x, "names": ["blocks.0.fc", "head"]}
    calls = [{**call, "gradients": gradients} for gradients in (False, True)]
    # Another test judges whether it works for a frozen module.
    calls.append({**call, "gradients": True, "frozen": True, "fails": True})
    results = student.run(probes.intermediate_gradients_each, calls=calls)
    expect.parts(results, len(calls), of="intermediate_gradients")
    for got in results[:2]:
        check_names(got["result"], call["names"])
        for name in call["names"]:
            a_tensor(got["result"][name], of="intermediate_gradients")
    for got in results:
        check_gradients_as_they_were(got)


@pytest.mark.points(2)
def test_intermediate_gradients_before_a_layer_that_works_in_place(student, rng):
    """The gradient is that of the submodule's output, even if the next layer overwrites it."""
    names = ["blocks.0.fc", "blocks.1.fc", "blocks.1.act"]
    hint = (
        "after an in-place operation the tensor has a different value: to which of the two "
        "does this gradient belong?"
    )
    settings = [{"inplace": True, **more} for more in ({}, {"frozen": True}, {"grad_mode": False})]
    check_against_plain(student, rng, names, settings, hint=hint)


# Stays: the other tests of these settings look at layers that work in place.
@pytest.mark.points(2)
def test_intermediate_gradients_without_grad_mode_or_trainable_parameters(student, rng):
    """intermediate_gradients works under torch.no_grad() and for a frozen module."""
    names = ["blocks.0.fc", "blocks.1", "head"]
    hint = "does anything require a gradient, and is autograd enabled?"
    settings = [{"grad_mode": False}, {"frozen": True}]
    check_against_plain(student, rng, names, settings, hint=hint)
    settings = [{"frozen": True, "grad_mode": False}]
    check_against_plain(student, rng, names[1:], settings, hint=hint)


@pytest.mark.points(2)
def test_intermediate_gradients_of_any_input(student, rng):
    """x may be of any shape, layout and dtype, and hold token ids; names may be a tuple."""
    of, names = "intermediate_gradients", ["blocks.0.fc", "blocks.1.act"]
    net, x = random_net(rng)
    ids = torch.arange(len(x)).flip(0)
    cases = [
        (x, lambda g: g, {}),
        (x[0], lambda g: g[0], {}),
        (x[:0], lambda g: g[:0], {}),
        (x[:, None], lambda g: g[:, None], {}),
        (x[:1].expand(4, -1), lambda g: g[:1].expand(4, -1), {}),
        (spread(x) * 2**20, lambda g: g, {"gradients": True}),
        (spread(x), lambda g: g, {"evaluates": True}),
        (x * 2**-20, lambda g: g, {"tied": True}),
        (x, lambda g: 2 * g, {"doubles": True}),
        (ids, lambda g: g.flip(0), {"embed": x}),
        (0 * x, None, {}),
    ]
    calls = []
    for given, _, options in cases:
        in_net = {key: options.pop(key) for key in ("tied", "embed", "doubles") if key in options}
        calls.append({"net": {**net, **in_net}, "x": given, "names": tuple(names), **options})
    results = intermediate(student, calls)
    plain = {name: a_tensor(results[0][name], of=of) for name in names}
    of_zeros = expected_intermediate(net, 0 * x)
    for got, (_, of_plain, _) in zip(results, cases, strict=True):
        for name in names:
            expected = of_zeros[name] if of_plain is None else of_plain(plain[name])
            expect.tensor(got[name], expected, of=of, name=f"the gradient of an output ({name})")
    check_dtypes_of_intermediate(student, rng, names)
    number = exact(rng) + 3  # above 0
    for x, slope in [(number, 1.0), (-number, 0.25)]:
        got = student.run(probes.intermediate_gradients_of_activations, x=x, names=["0", "1"])
        check_names(got, ["0", "1"])
        for name, expected in [("0", slope), ("1", 1.0)]:
            expected = torch.tensor(expected, dtype=torch.float64)
            expect.tensor(got[name], expected, of=of, name="the gradient of an activation")


def check_dtypes_of_intermediate(student, rng, names):
    """Check that a net of few bits has the same gradients in each dtype."""
    n, i, h, g, o, s = sizes(rng, 6, 2, 8)
    shapes = {"side": (s, g), "head": (o, g)}
    few = {key: torch.randint(-1, 2, shape, generator=rng) for key, shape in shapes.items()}
    blocks = [torch.randint(-1, 2, shape, generator=rng) for shape in [(h, i), (g, h)]]
    x = torch.randint(-1, 2, (n, i), generator=rng)
    dtypes = torch.float64, torch.float32, torch.bfloat16, torch.float16
    calls = []
    for dtype in dtypes:
        net = {key: weight.to(dtype) for key, weight in few.items()}
        net["blocks"] = [weight.to(dtype) for weight in blocks]
        calls.append({"net": net, "x": x.to(dtype), "names": names})
    results = intermediate(student, calls)
    for (got, dtype), name in itertools.product(zip(results, dtypes, strict=True), names):
        own, of = results[0][name], "intermediate_gradients"
        expect.kind(own, torch.Tensor, of=of, name="a gradient")
        which = f"the gradient of an output ({name}) in {expect.dtype_name(dtype)}"
        expect.tensor(got[name], own.to(dtype), of=of, name=which)


@pytest.mark.points(2)
def test_intermediate_gradients_of_an_unused_output(student, rng):
    """If the result does not depend on a submodule's output, its gradient is zeros."""
    name, hint = (
        "the gradient of an unused output",
        "return zeros of the output's shape, not None",
    )
    calls = []
    for names, frozen in [(["side", "blocks.1.fc"], False), (["side"], False), (["side"], True)]:
        net, x = random_net(rng)
        calls.append({"net": net, "x": x, "names": names, "frozen": frozen})
    # Where the input holds token ids, the gradients hold floats, too.
    embedded = {"net": {**net, "embed": x}, "x": torch.arange(len(x)), "names": ["side"]}
    calls += [{**embedded, "frozen": frozen} for frozen in (False, True)]
    for call, got in zip(calls, intermediate(student, calls), strict=True):
        for other in call["names"][1:]:
            a_tensor(got[other], of="intermediate_gradients")
        shape = len(call["x"]), len(call["net"]["side"])
        expected = torch.zeros(shape, dtype=torch.float64)
        expect.tensor(got["side"], expected, of="intermediate_gradients", name=name, hint=hint)


# --- accumulate_gradients


def chunk_inputs(rng, n, *, tokens=False):
    """A small model and n rows for it."""
    i, h, o = sizes(rng, 3)
    weights = [
        torch.rand(shape, generator=rng, dtype=torch.float64) * 2 - 1 for shape in [(h, i), (o, h)]
    ]
    if not tokens:
        return {"weights": weights, "x": uniform(rng, n, i), "y": uniform(rng, n, o)}
    x, y = torch.randint(0, 5, (n, 3), generator=rng), torch.randint(0, o, (n, 3), generator=rng)
    return {
        "weights": weights,
        "x": x,
        "y": y,
        "embed": uniform(rng, 5, i),
        "loss": "cross_entropy",
    }


def whole_batch(inputs):
    """The loss of the whole batch and its gradients."""
    model = probes.make_model(inputs["weights"], inputs.get("embed"), inputs.get("expert"))
    loss = probes.mean_loss(inputs.get("loss", "square"), inputs.get("scale", 1.0))(
        model(inputs["x"]), inputs["y"]
    )
    return loss.item(), torch.autograd.grad(loss, list(model.parameters()))


def accumulate(student, calls):
    """The results of accumulate_gradients for several calls."""
    results = student.run(probes.accumulate_gradients_each, calls=calls)
    expect.parts(results, len(calls), of="accumulate_gradients")
    return results


def check_chunks(student, calls, *, hint):
    """Check the gradients of several calls.

    A call has the inputs and options of the probe, the `expected` gradients, and perhaps the
    `expected_loss` and an `atol`.
    """
    judged = {"expected", "expected_loss", "atol"}
    given = [{k: v for k, v in call.items() if k not in judged} for call in calls]
    for call, got in zip(calls, accumulate(student, given), strict=True):
        check_one(got, call, hint=hint)


def check_one(got, call, *, hint):
    """Check the gradients, and perhaps the loss, of one call."""
    of, expected = "accumulate_gradients", call["expected"]
    expect.that(len(got["gradients"]) == len(expected), "the model's parameters changed", of=of)
    tolerance = call.get("atol", CHUNKS_TOLERANCE * call.get("scale", 1.0))
    if "expected_loss" in call:
        loss, want = as_number(got["loss"]), call["expected_loss"]
        expect.number(loss, want, of=of, tolerance=tolerance, name="the loss", hint=hint)
    for gradient, want in zip(got["gradients"], expected, strict=True):
        if want is None:
            reason = "a parameter that is frozen or unused has a .grad afterwards"
            expect.that(gradient is None, reason, of=of)
            continue
        expect.that(
            gradient is not None,
            "a parameter has no .grad afterwards",
            of=of,
            hint="run one backward pass per chunk",
        )
        expect.tensor(gradient, want, of=of, atol=tolerance, name="a parameter's .grad", hint=hint)


# Stays: this test checks the plain rule, so code that is right only for equal chunks earns points.
@pytest.mark.core
@pytest.mark.points(6)
def test_accumulate_gradients_in_equal_chunks(student, rng):
    """Chunks of equal size, or one chunk, leave the gradients of the whole batch in .grad."""
    hint = "backward adds to .grad; the loss is a mean over all rows"
    calls = []
    for micro_batch_size, scale in [
        (6, 1.0),
        (3, 1.0),
        (2, 1.0),
        (1, 1.0),
        *((2, s) for s in SCALES[1:]),
    ]:
        call = {**chunk_inputs(rng, 6), "scale": scale, "micro_batch_size": micro_batch_size}
        calls.append({**call, "expected": whole_batch(call)[1]})
    check_chunks(student, calls, hint=hint)


@pytest.mark.points(1)
def test_accumulate_gradients_in_one_chunk(student, rng):
    """micro_batch_size may be larger than the number of rows."""
    inputs = chunk_inputs(rng, 6)
    calls = [{**inputs, "micro_batch_size": size} for size in (6, 40, 2**53)]
    got, *others = accumulate(student, calls)
    whole = [a_tensor(gradient, of="accumulate_gradients") for gradient in got["gradients"]]
    hint = "micro_batch_size is an upper bound: all rows then fit into one chunk"
    for other in others:
        check_one(other, {"expected": whole, "expected_loss": own_loss(got)}, hint=hint)


@pytest.mark.points(1)
def test_accumulate_gradients_cuts_full_chunks(student, rng):
    """Every chunk but one has micro_batch_size rows."""
    of = "accumulate_gradients"
    cases = [(9, 4), (10, 4), (7, 2), (6, 3), (5, 8), (3, 1)]
    calls = [{**chunk_inputs(rng, n), "micro_batch_size": size} for n, size in cases]
    # In eval mode it is the same.
    calls += [{**call, "evaluates": True} for call in calls[:1]]
    cases += cases[:1]
    results = accumulate(student, calls)
    for (n, micro_batch_size), got in zip(cases, results, strict=True):
        for gradient in got["gradients"]:
            a_tensor(gradient, of=of)
        full, rest = divmod(n, micro_batch_size)
        expected = [micro_batch_size] * full + [rest] * (rest > 0)
        rows, hint = sorted(got["rows"], reverse=True), "only the last chunk may be shorter"
        name = "the numbers of rows that the model is given"
        expect.value(rows, expected, of=of, name=name, hint=hint)


def as_number(loss):
    """The loss as a float. One test judges whether it is one."""
    if isinstance(loss, torch.Tensor) and loss.numel() == 1 and loss.device.type == "cpu":
        return loss.detach().to_dense().flatten()[0].item()
    return loss


def own_loss(got):
    """The loss of another call of the student's code."""
    loss = as_number(got["loss"])
    expect.kind(loss, float, of="accumulate_gradients", name="the loss")
    return float(loss)


@pytest.mark.points(2)
def test_accumulate_gradients_of_any_data(student, rng):
    """x and y may be views of any shape or share memory, and the model may be in eval mode.

    Parameters may be frozen, tied or unused, and of any dtype.
    """
    hint = "slices of x and y are all that is needed; which parameters get a gradient?"
    tokens = chunk_inputs(rng, 6, tokens=True)
    two = chunk_inputs(rng, 6)
    x, y = two["x"], two["y"]
    linear = {"weights": [uniform(rng, y.shape[1], x.shape[1])]}
    old = [uniform(rng, *weight.shape) for weight in two["weights"]]
    # Only some rows go through the expert: those of the second chunk, or of the first one.
    signs = torch.tensor([[-1.0]] * 3 + [[1.0]] * 3, dtype=torch.float64)
    square = uniform(rng, x.shape[1], x.shape[1])
    calls = []
    for changed, options in [
        ({"x": spread(x), "y": spread(y)}, {"of_data": True}),
        ({"x": x[:1].expand(x.shape), "y": y[:1].expand(y.shape)}, {"frozen": [0]}),
        ({}, {"frozen": [0], "already": old}),
        ({"x": x[:, None], "y": y[:, None]}, {"evaluates": True}),
        ({}, {"evaluates": True, "already": old}),
        ({}, {"unused": True}),
        ({}, {"unused": True, "already": [two["weights"][0]]}),
        *(({"x": x.abs() * s, "expert": square}, {}) for s in (signs, -signs)),
        ({**tokens, "x": tokens["x"][:, 0], "y": tokens["y"][:, 0]}, {}),
        ({"x": x, "y": x, "weights": [uniform(rng, x.shape[1], x.shape[1])]}, {}),
        (loss_of_zero(), {}),
        ({"x": torch.zeros_like(x), "y": torch.zeros_like(y)}, {}),
        *(({"x": x * s, "y": y * s, **linear}, {}) for s in (2.0**20, 2.0**-20)),
    ]:
        inputs = {**two, **changed}
        loss, gradients = whole_batch(inputs)
        gradients = [None if i in options.get("frozen", []) else g for i, g in enumerate(gradients)]
        gradients = [None] * options.get("unused", 0) + gradients
        for i, before in enumerate(options.get("already", [])):
            gradients[i] = before if gradients[i] is None else gradients[i] + before
        # A loss of squares and its gradients grow with the square of x and y.
        atol = CHUNKS_TOLERANCE * max(1.0, inputs["x"].double().abs().max().item() ** 2)
        judged = {"expected": gradients, "expected_loss": loss, "atol": atol}
        calls.append({**inputs, **options, **judged, "micro_batch_size": 3})
    calls += calls_of_each_dtype(rng)
    check_chunks(student, calls, hint=hint)


def loss_of_zero():
    """Data whose loss is exactly 0 in every chunk, although its gradient is not."""
    one = torch.ones(6, 1, dtype=torch.float64)
    return {"x": one, "y": torch.cat([one, -one], 1), "weights": [one[:2]], "loss": "product"}


def calls_of_each_dtype(rng):
    """Calls for a model of so few bits that its loss and gradients are exact in half precision."""
    i, o = sizes(rng, 2, 2, 6)
    few = {"x": (8, i), "y": (8, o), "weights": (o, i)}
    inputs = {name: torch.randint(-1, 2, shape, generator=rng) for name, shape in few.items()}
    calls = []
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        given = {name: x.to(dtype) for name, x in inputs.items()}
        given |= {"weights": [given["weights"]], "loss": "product", "micro_batch_size": 4}
        loss, gradients = whole_batch(given)
        calls.append({**given, "expected": gradients, "expected_loss": loss})
    return calls


@pytest.mark.core
@pytest.mark.points(6)
def test_accumulate_gradients_with_a_short_last_chunk(student, rng):
    """If the last chunk is short, each row still has the same weight."""
    tokens = chunk_inputs(rng, 7, tokens=True)
    one_each = {**tokens, "x": tokens["x"][:, 0], "y": tokens["y"][:, 0]}
    calls = []
    for inputs in (chunk_inputs(rng, 7), tokens, one_each):
        expected = whole_batch(inputs)[1]
        calls += [
            {**inputs, "expected": expected, "micro_batch_size": size} for size in (2, 3, 4, 5, 6)
        ]
    check_chunks(student, calls, hint="weight a chunk by its number of rows")


# Stays: a loop over batches needs this, and another test has such gradients beside much else.
@pytest.mark.core
@pytest.mark.points(4)
def test_accumulate_gradients_adds_to_what_is_there(student, rng):
    """Gradients are added to an existing .grad, as backward does."""
    inputs = chunk_inputs(rng, 6, tokens=True)
    weights = [inputs["embed"], *inputs["weights"]]
    already = [uniform(rng, *weight.shape) for weight in weights]
    calls = [{**inputs, "micro_batch_size": size} for size in (2, 2, 3, 4)]
    # A short last chunk is compared with one of the student's own.
    calls.append({**calls[-1], "already": already})
    calls[1] |= {"already": already}
    calls[2] |= {"already": already[:1]}
    own, added, partly, own_short, added_short = accumulate(student, calls)
    for new, got, old in [
        (own, added, already),
        (own, partly, already[:1]),
        (own_short, added_short, already),
    ]:
        gradients = [a_tensor(gradient, of="accumulate_gradients") for gradient in new["gradients"]]
        hint = "add to .grad; do not clear or rescale what it contains; it may be None"
        expected = [b if a is None else a + b for a, b in itertools.zip_longest(old, gradients)]
        check_one(got, {"expected": expected}, hint=hint)


@pytest.mark.points(4)
def test_accumulate_gradients_returns_the_mean_loss(student, rng):
    """The returned loss is loss_fn(model(x), y) of the whole batch."""
    calls = []
    for n, micro_batch_size, scale in [
        (6, 2, 1.0),
        (7, 3, 1.0),
        (3, 1, 1.0),
        (5, 5, 1.0),
        *((7, 2, s) for s in SCALES[1:]),
    ]:
        inputs = {**chunk_inputs(rng, n), "scale": scale}
        calls.append({**inputs, "micro_batch_size": micro_batch_size})
    calls.append({**chunk_inputs(rng, 7, tokens=True), "micro_batch_size": 2})
    for call, got in zip(calls, accumulate(student, calls), strict=True):
        expected, _ = whole_batch(call)
        hint = (
            "the mean over all rows: neither the last chunk's loss nor the plain mean of the "
            "chunks' means"
        )
        expect.number(
            as_number(got["loss"]),
            expected,
            of="accumulate_gradients",
            tolerance=CHUNKS_TOLERANCE * call.get("scale", 1.0),
            name="the loss",
            hint=hint,
        )


@pytest.mark.points(1)
def test_accumulate_gradients_returns_a_float(student, rng):
    """The loss is a Python float, not a tensor that keeps a graph alive."""
    inputs = chunk_inputs(rng, 6)
    losses = []
    calls = [{**inputs, "micro_batch_size": 2, "scale": scale} for scale in (1.0, 1024.0)]
    for got in accumulate(student, calls):
        loss = got["loss"]
        expect.kind(loss, float, of="accumulate_gradients", name="the loss", hint=".item()")
        losses.append(float(loss))
    expect.that(losses[0] != 0, "the loss is 0", of="accumulate_gradients")
    expect.number(
        losses[1] / losses[0],
        1024.0,
        of="accumulate_gradients",
        tolerance=1e-6,
        name="a loss 1024 times as large",
    )


@pytest.mark.core
@pytest.mark.points(8)
def test_accumulate_gradients_holds_one_chunk_at_a_time(student, rng):
    """Only one chunk of at most micro_batch_size rows, with its graph, is in memory at a time."""
    of = "accumulate_gradients"
    cases = [(8, 3), (6, 2)]
    calls = [{**chunk_inputs(rng, n), "micro_batch_size": size, "watch": True} for n, size in cases]
    # With gradients from before the call.
    calls.append({**calls[0], "already": calls[0]["weights"]})
    cases.append(cases[0])
    for (n, micro_batch_size), got in zip(cases, accumulate(student, calls), strict=True):
        rows = got["rows"]
        expect.that(
            sum(rows) >= n,
            "the model was not given every row",
            of=of,
            hint="the last chunk may be short",
        )
        expect.that(
            max(rows) <= micro_batch_size,
            "the model is given more than micro_batch_size rows",
            of=of,
        )
        hint = "run the backward pass of each chunk right after its forward pass"
        for gradient in got["gradients"]:
            a_tensor(gradient, of=of)
        reason = "while a chunk runs, autograd still holds tensors of earlier chunks"
        expect.that(got["held"] == 0, reason, of=of, hint=hint)


# --- wrong calls


@pytest.mark.points(2)
def test_refuses_what_does_not_fit(student, rng):
    """Shapes or lengths that do not match, and names of submodules that do not run, are errors."""
    i, o = sizes(rng, 2)
    weight = exact(rng, o, i)
    with expect.right_call("linear_backward of x [2, 3, in] and grad_output [2, 3, out]"):
        got = student.autograd.linear_backward(exact(rng, 2, 3, i), weight, exact(rng, 2, 3, o))
        a_tensor(pair(got, of="linear_backward")[1], of="linear_backward")
    cases = [
        ((2, 3), (3, 2, o)),
        ((2, 3), (6, o)),
        ((4,), (3, o)),
        ((), (1, o)),
        ((2, 3), (1, 3, o)),
        ((0,), (2, o)),
        ((1,), (3, o)),
        ((3,), (3, 1)),
    ]
    # With need_input_grad=False no product of G and the weight notices these.
    cases += [((4,), (4, o + 1)), ((4,), (2, 2 * o))]
    calls = [(exact(rng, *leading, i), weight, exact(rng, *shape)) for leading, shape in cases]
    results = student.run(probes.linear_backward_refuses, calls=calls)
    expect.parts(results, 2 * len(calls), of="linear_backward")
    for refused in results:
        reason = (
            "expected ValueError or RuntimeError when grad_output does not have y's shape, but "
            "nothing was raised"
        )
        expect.that(refused, reason, of="linear_backward")
    net, x = random_net(rng)
    with expect.right_call("intermediate_gradients of the submodule head"):
        intermediate(student, [{"net": net, "x": x, "names": ["head"]}])
    for name in ("no.such", "idle"):
        errors, when = (ValueError, AttributeError, KeyError), "no submodule with that name runs"
        with expect.raises(errors, of="intermediate_gradients", when=when):
            intermediate(student, [{"net": net, "x": x, "names": ["head", name]}])
    inputs = chunk_inputs(rng, 6)
    with expect.right_call("accumulate_gradients of 6 rows of x and of y"):
        (got,) = accumulate(student, [{**inputs, "micro_batch_size": 2}])
        for gradient in got["gradients"]:
            a_tensor(gradient, of="accumulate_gradients")
    for short, rows in [({"y": inputs["y"][:5]}, 2), ({"x": inputs["x"][:4]}, 2)] + [
        ({name: inputs[name][:1]}, 6) for name in "xy"
    ]:
        errors, when = (ValueError, RuntimeError), "x and y have different numbers of rows"
        with expect.raises(errors, of="accumulate_gradients", when=when):
            accumulate(student, [{**inputs, **short, "micro_batch_size": rows}])
