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


def check_linear_backward(student, x, weight, upstream, *, hint, **options):
    expected_x, expected_weight = gradients_of(F.linear, (x, weight), upstream)
    got = student.run(
        probes.by_hand, function="linear_backward", args=(x, weight, upstream), **options
    )
    grad_x, grad_weight = pair(got, of="linear_backward")
    expect.tensor(grad_x, expected_x, of="linear_backward", name="the gradient of x", hint=hint)
    expect.tensor(
        grad_weight, expected_weight, of="linear_backward", name="the gradient of weight", hint=hint
    )


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
    for of_each in scales(3):
        inputs = linear_inputs(rng, sizes(rng, 1))
        scaled = (x * scale for x, scale in zip(inputs, of_each, strict=True))
        check_linear_backward(student, *scaled, hint=hint)


# Stays: the test of two dimensions needs no sum over leading ones, and in the test of unusual
# strides another mistake could be the cause.
@pytest.mark.core
@pytest.mark.points(4)
def test_linear_backward_for_any_leading_dimensions(student, rng):
    """x may have no, one or several leading dimensions; the gradient of W sums over all of them.

    Any size may be 1, and a leading one 0: an expert without tokens.
    """
    hint = "every vector of x was multiplied by the same weight"
    for leading in [(), (1,), (2, 5, 3), (0,), (2, 0, 3)]:
        check_linear_backward(student, *linear_inputs(rng, leading), hint=hint)
    i, o = sizes(rng, 2)
    for shapes in [((3, 1), (o, 1), (3, o)), ((2, 3, i), (1, i), (2, 3, 1))]:
        inputs = (exact(rng, *shape) for shape in shapes)
        check_linear_backward(student, *inputs, hint=hint, need_input_grad=True)


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
    for inputs in (turned, expanded, repeated, views, [square] * 3, squares, zeros):
        hint = "reshape copies if it has to; view does not"
        check_linear_backward(student, *inputs, hint=hint)
    check_linear_backward(student, *views, graph=True, hint="what is different in grad mode?")


@pytest.mark.core
@pytest.mark.points(4)
def test_linear_backward_computes_only_what_is_asked_for(student, rng):
    """With need_input_grad=False the first gradient is None and its product is not computed."""
    x, weight, upstream = linear_inputs(rng, sizes(rng, 1))
    got = student.run(probes.linear_backward_by_need, x=x, weight=weight, grad_output=upstream)
    first, second = pair(got["weight_alone"], of="linear_backward")
    expect.that(
        first is None,
        "a gradient of x although need_input_grad is False",
        of="linear_backward",
        hint="return None",
    )
    own = a_tensor(pair(got["both"], of="linear_backward")[1], of="linear_backward")
    expect.tensor(
        second, own, of="linear_backward", name="the gradient of weight without that of x"
    )
    fewer = got["products_for_weight"] < got["products_for_both"] or got["products_for_both"] == 0
    reason = "need_input_grad=False does not save a product"
    expect.that(
        fewer,
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
    for of_each in scales(4):
        inputs = [exact(rng, *shape) for shape in mlp_shapes(rng)]
        check_mlp_backward(student, *(x * s for x, s in zip(inputs, of_each, strict=True)))


def check_mlp_backward(student, x, w1, w2, upstream, **options):
    got = student.run(
        probes.by_hand, function="mlp_backward", args=(x, w1, w2, upstream), **options
    )
    grad_w1, grad_w2 = pair(got, of="mlp_backward")
    expected = gradients_of(lambda w1, w2: F.linear(F.linear(x, w1).relu(), w2), (w1, w2), upstream)
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
    for sized in [(0, i, h, o), (1, 1, h, 1), (n, i, 1, o)]:
        check_mlp_backward(student, *(exact(rng, *shape) for shape in shapes_of_mlp(*sized)))
    square, inputs = exact(rng, h, h), [exact(rng, *shape) for shape in mlp_shapes(rng)]
    views = [spread(x) for x in inputs]
    expanded = [x[:1].expand(x.shape) for x in inputs]
    zeros = [torch.zeros_like(x) for x in inputs]
    squares = [exact(rng, h, h) for _ in range(4)]
    for these in (views, expanded, [square] * 4, squares, zeros):
        check_mlp_backward(student, *these)
    check_mlp_backward(student, *inputs, graph=True)


@pytest.mark.points(2)
def test_mlp_backward_where_relu_is_exactly_at_zero(student, rng):
    """Where relu's input is exactly 0, its gradient is 0, as in torch."""
    x, w1, w2, upstream = (exact(rng, *shape).abs() + 1 for shape in mlp_shapes(rng))
    w1[0] = 0
    got = student.run(probes.by_hand, function="mlp_backward", args=(x, w1, w2, upstream))
    grad_w1 = a_tensor(pair(got, of="mlp_backward")[0], of="mlp_backward")
    name, hint = "the gradient of w1 for a unit at 0", "what is the slope of relu at 0?"
    expect.tensor(grad_w1[0], torch.zeros_like(w1[0]), of="mlp_backward", name=name, hint=hint)


@pytest.mark.points(2)
def test_by_hand_in_the_dtype_of_the_inputs(student, rng):
    """linear_backward and mlp_backward compute and return gradients in their inputs' dtype."""
    # Half precision is exact for these, and no unit is dead.
    n, i, h, o = sizes(rng, 4, 2, 6)
    linear = [small(rng, *shape) for shape in [(n, i), (o, i), (n, o)]]
    mlp = [small(rng, *shape) for shape in shapes_of_mlp(n, i, h, o)]
    for function, args, of_weight in [("linear_backward", linear, 1), ("mlp_backward", mlp, 0)]:
        # Gᵀ x depends on the last bits of x, which float32 does not have.
        inputs = args, [args[0] * (1 + 2.0**-40), *args[1:]]
        first, second = (
            pair(student.run(probes.by_hand, function=function, args=x), of=function)[of_weight]
            for x in inputs
        )
        same = torch.equal(
            a_tensor(first, of=function).double(), a_tensor(second, of=function).double()
        )
        expect.that(
            not same,
            "float64 inputs have lost digits",
            of=function,
            hint="compute in the dtype of the inputs",
        )
        own = pair(student.run(probes.by_hand, function=function, args=args), of=function)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            given = [x.to(dtype) for x in args]
            got = pair(student.run(probes.by_hand, function=function, args=given), of=function)
            for gradient, wide in zip(got, own, strict=True):
                expected = a_tensor(wide, of=function).to(dtype)
                hint = "compute in the dtype of the inputs"
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
    got = student.run(probes.matmul, **operands)
    for gradient in got["gradients"]:
        a_tensor(gradient, of="MatMul.backward")
    for x, before in zip(got["inputs"], operands.values(), strict=True):
        expect.tensor(x, before, of="MatMul", name="an operand or the upstream gradient afterwards")
    inputs = chunk_inputs(rng, 6)
    got = student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)
    for gradient in got["gradients"]:
        a_tensor(gradient, of="accumulate_gradients")
    for name in ("x", "y"):
        expect.tensor(
            got[name], inputs[name], of="accumulate_gradients", name=f"{name} after the call"
        )
    expect.generators_left(got["generators_changed"], of="accumulate_gradients")


# --- MatMul


def check_matmul(student, a, b, rng, *, upstream=None, hint=None, **options):
    """Check that the product and both gradients are those of torch.matmul."""
    expected = a @ b
    if upstream is None:
        upstream = exact(rng, *expected.shape).to(expected.dtype)
    got = student.run(probes.matmul, a=a, b=b, upstream=upstream, **options)
    expect.tensor(got["output"], expected, of="MatMul.forward", name="the product")
    if options.get("layout") == "expanded":
        upstream = upstream.flatten()[0].expand(expected.shape)
    names = ("the gradient of a", "the gradient of b")
    for name, gradient, want in zip(
        names, got["gradients"], gradients_of(torch.matmul, (a, b), upstream), strict=True
    ):
        expect.tensor(gradient, want, of="MatMul.backward", name=name, hint=hint)


# Stays: this test checks the plain rule. A mistake in it also breaks batches, but not the other way
# round.
@pytest.mark.core
@pytest.mark.points(8)
def test_matmul_of_matrices(student, rng):
    """For two matrices and an upstream gradient G, the gradients are G bᵀ for a and aᵀ G for b."""
    hint = "G bᵀ and aᵀ G: which shape does each factor have? Do not rescale or clamp any number"
    for a, b, c in scales(3):
        m, k, n = sizes(rng, 3)
        operands = exact(rng, m, k) * a, exact(rng, k, n) * b
        check_matmul(student, *operands, rng, upstream=exact(rng, m, n) * c, hint=hint)


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
    for leading in [(batch,), (batch, heads), (0,), (1, 1)]:
        check_matmul(
            student, exact(rng, *leading, m, k), exact(rng, *leading, k, n), rng, hint=hint
        )
    check_matmul(student, exact(rng, batch, 1, k), exact(rng, batch, k, 1), rng, hint=hint)
    check_matmul(student, exact(rng, m, 1), exact(rng, 1, n), rng, hint=hint)
    m, k, n = sizes(rng, 3, 2, 6)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        operands = small(rng, 2, m, k).to(dtype), small(rng, 2, k, n).to(dtype)
        upstream = small(rng, 2, m, n).to(dtype)
        check_matmul(student, *operands, rng, upstream=upstream, hint="keep the operands' dtype")


@pytest.mark.points(2)
def test_matmul_of_any_strides(student, rng):
    """Operands and upstream gradients may be non-contiguous or expanded."""
    m, k, n, batch, heads = sizes(rng, 5)
    hint = "nothing has to be contiguous"
    turned = exact(rng, k, m, batch).permute(2, 1, 0), exact(rng, batch, n, k).mT
    check_matmul(
        student, *turned, rng, upstream=exact(rng, n, batch, m).permute(1, 2, 0), hint=hint
    )
    one_b = exact(rng, batch, m, k), exact(rng, k, n)  # one b for all a
    upstream = exact(rng, m, batch, n).transpose(0, 1)
    check_matmul(student, *one_b, rng, upstream=upstream, hint=hint)
    operands = exact(rng, batch, heads, m, k), exact(rng, batch, heads, k, n)
    check_matmul(
        student,
        *operands,
        rng,
        upstream=exact(rng, n, heads, m, batch).permute(3, 1, 2, 0),
        hint=hint,
    )
    check_matmul(
        student,
        *operands,
        rng,
        layout="expanded",
        hint="the upstream gradient of a sum is one number, expanded",
    )
    square = exact(rng, k, k)
    expanded = exact(rng, 1, k).expand(m, k), exact(rng, 1, n).expand(k, n)
    views, zeros = (spread(exact(rng, m, k)), spread(exact(rng, k, n))), torch.zeros(m, n)
    for these in (expanded, views, (square, square), (torch.zeros(m, k), torch.zeros(k, n))):
        these = [x.double() for x in these]
        upstream = spread(exact(rng, len(these[0]), these[1].shape[-1]))
        check_matmul(student, *these, rng, upstream=upstream, hint=hint)
    check_matmul(student, *views, rng, upstream=zeros.double(), hint=hint)
    hint = "ctx belongs to one product, and its backward pass may run again"
    check_matmul(student, exact(rng, m, k), exact(rng, k, n), rng, another=True, hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_matmul_of_broadcast_operands(student, rng):
    """The gradient of a broadcast operand is the sum over all the places where it was used."""
    m, k, n, batch, heads = sizes(rng, 5)
    for leading_a, leading_b in [
        ((batch,), ()),
        ((), (batch, heads)),
        ((batch, heads), (heads,)),
        ((batch, 1), (heads,)),
        ((1, heads), (batch, 1)),
        ((1,), (batch,)),
    ]:
        a, b = exact(rng, *leading_a, m, k), exact(rng, *leading_b, k, n)
        check_matmul(
            student,
            a,
            b,
            rng,
            hint="sum over the broadcast dimensions: missing ones, and those of size 1",
        )


@pytest.mark.core
@pytest.mark.points(4)
def test_matmul_computes_only_the_gradients_asked_for(student, rng):
    """If an operand needs no gradient, backward returns None for it and skips its product."""
    of = "MatMul.backward"
    m, k, n = sizes(rng, 3)
    a, b, upstream = exact(rng, m, k), exact(rng, k, n), exact(rng, m, n)
    both = student.run(probes.matmul, a=a, b=b, upstream=upstream)
    for wanted, which in enumerate("ab"):
        got = student.run(
            probes.matmul, a=a, b=b, upstream=upstream, needs=[which == "a", which == "b"]
        )
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
    got = student.run(probes.matmul, a=a, b=b, upstream=exact(rng, m, n))
    for gradient in got["gradients"]:
        a_tensor(gradient, of="MatMul.backward")
    turned = exact(rng, k, m).T, exact(rng, n, 2 * k)[:, ::2].T  # not contiguous
    batches = exact(rng, 3, m, k), exact(rng, k, n)
    for changed, operands, both in itertools.product(
        (0, 1), ((a, b), turned, batches), (True, False)
    ):
        given = dict(zip("ab", operands, strict=True))
        raised = student.run(probes.matmul_after_a_change, **given, changed=changed, both=both)
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
    for count in (3, 2, 1):
        args = {
            "inputs": inputs[:count],
            "cubic": cubic[:count],
            "linear": linear[:count],
            "eps": 2.0**-6,
            "factor": 0.5,
        }
        check_exact_differences(student, args)


@pytest.mark.points(2)
def test_numerical_gradient_of_any_inputs(student, rng):
    """Inputs may be of any dtype and size, zeros, large or tiny, a tuple, and eps may be an int.

    f may return its input itself, or a view of it.
    """
    halves = [torch.randint(1, 8, (2,), generator=rng) / 8 for _ in range(2)]
    inputs = [halves[0].half(), halves[1].bfloat16(), torch.zeros(0, 3), torch.zeros(())]
    args = {"linear": [torch.ones_like(x) for x in inputs], "eps": 2.0**-6, "factor": 0.5}
    check_exact_differences(student, {"inputs": inputs, **args}, as_tuple=True, grad_mode=False)
    tiny = torch.tensor([2.0**-20, -(2.0**-20)])
    wide = torch.tensor([2.0**20, 1.0, 0.0, -0.5])
    for x, eps in [(wide, 1), (wide, 1.0), (torch.zeros(3), 0.5), (tiny, 2.0**-20)]:
        linear = [torch.randint(1, 4, x.shape, generator=rng).double()]
        inputs = [x.double()]
        for requires_grad in (False, True):
            args = {"inputs": inputs, "linear": linear, "eps": eps}
            check_exact_differences(student, args, requires_grad=requires_grad)
    for x in (
        torch.tensor(2.0, dtype=torch.float64),
        torch.tensor([3.0, 4.0], dtype=torch.float64),
    ):
        got = student.run(probes.numerical_gradient_of_an_element, x=x, eps=0.5)
        expected = torch.zeros_like(x)
        expected.view(-1)[0] = 1
        hint = "f(x + eps) may be a view of your own tensor: is it read before that changes?"
        check_differences({"result": got}, [expected], [x], atol=0.0, hint=hint)


def check_exact_differences(student, args, **options):
    """Check gradients of a function of so few bits that nothing is rounded, and their dtypes."""
    args = {"cubic": [torch.zeros_like(x) for x in args["inputs"]], "factor": 1.0, **args}
    got = student.run(probes.numerical_gradient, **args, **options)
    expected, _ = central_differences(**args)
    hint = "change one element at a time, and keep all other inputs as they are"
    check_differences(got, expected, args["inputs"], atol=0.0, hint=hint, dtype_matters=True)


@pytest.mark.core
@pytest.mark.points(8)
def test_numerical_gradient_takes_central_differences(student, rng):
    """The step is eps to either side: for c·x³ the result is 3c·x² + c·eps²."""
    inputs = [uniform(rng, 3, 2), uniform(rng, 4)]
    for eps, scale in [
        (0.25, 1.0),
        (1e-2, 1.0),
        (1e-4, 1.0),
        *((1e-2, scale) for scale in SCALES[1:]),
    ]:
        coefficients = difference_inputs(rng, inputs)
        coefficients = {
            **coefficients,
            "cubic": [c * scale for c in coefficients["cubic"]],
            "factor": scale,
        }
        got = student.run(probes.numerical_gradient, inputs=inputs, **coefficients, eps=eps)
        expected, atol = central_differences(inputs, **coefficients, eps=eps)
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
    got = student.run(probes.numerical_gradient, inputs=inputs, **coefficients)
    expected, atol = central_differences(inputs, **coefficients, eps=1e-6)
    check_differences(got, expected, inputs, atol=atol, hint="the default is part of the signature")


@pytest.mark.points(2)
def test_numerical_gradient_leaves_its_inputs_bit_equal(student, rng):
    """The call does not change a single bit of the inputs, and gives them no .grad."""
    inputs = [
        uniform(rng, 2, 3),
        torch.tensor([1e-17, -0.0, 3e2, 1 / 3], dtype=torch.float64),
        uniform(rng),
    ]
    coefficients = difference_inputs(rng, inputs)
    before = [x.clone() for x in inputs]
    of, hint = "numerical_gradient", "x + eps - 2·eps + eps is not x"
    for requires_grad in (False, True):
        given = [x.clone() for x in inputs]
        got = student.run(
            probes.numerical_gradient,
            inputs=given,
            **coefficients,
            requires_grad=requires_grad,
            eps=1e-3,
        )
        expect.kind(got["result"], (tuple, list), of=of, name="the gradients")
        expect.that(len(got["result"]) > 0, "no gradient was returned", of=of)
        slopes = a_tensor(got["result"][0], of=of, shape=inputs[0].shape)
        same = torch.equal(slopes.double(), inputs[0])
        expect.that(not same, "the gradient is the input itself", of=of)
        expect.that(got["list_is_as_it_was"], "the list of inputs has changed", of=of)
        expect.generators_left(got["generators_changed"], of=of)
        for x, same in zip(got["inputs"], before, strict=True):
            bits, same_bits = x.reshape(-1).view(torch.int64), same.reshape(-1).view(torch.int64)
            expect.that(
                torch.equal(bits, same_bits),
                "an input has changed, if only by a bit",
                of=of,
                hint=hint,
            )
        expect.that(
            got["gradients"] == [None] * 3,
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
    for inputs, twice, hint in [
        (turned, False, strided),
        ([uniform(rng, 1).expand(3), uniform(rng, 2, 1).expand(2, 2)], False, shared),
        ([line[:3], line[1:], line], False, shared),
        ([uniform(rng, 2), uniform(rng)], True, shared),
    ]:
        seen = [*inputs, *inputs[:twice]]
        coefficients = {
            **difference_inputs(rng, seen),
            "cubic": [torch.zeros_like(x) for x in seen],
        }
        expected, _ = central_differences(seen, **coefficients, eps=1e-3)
        # Another test judges the step size.
        _, atol = central_differences(seen, **coefficients, eps=1e-6)
        got = student.run(
            probes.numerical_gradient, inputs=inputs, **coefficients, eps=1e-3, twice=twice
        )
        check_differences(got, expected, seen, atol=atol, hint=hint)


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


def intermediate(student, net, x, names, *, inplace=False, **options):
    """Run intermediate_gradients, and check that it returns a dict with these names."""
    got = student.run(
        probes.intermediate_gradients, net={**net, "inplace": inplace}, x=x, names=names, **options
    )
    check_names(got["result"], names)
    return got["result"]


def check_names(result, names):
    """Check that the answer is a dict with exactly these names."""
    of = "intermediate_gradients"
    expect.kind(result, dict, of=of, name="the gradients")
    expect.that(set(result) == set(names), "its keys are not the given names", of=of)


def check_against_plain(student, rng, names, *, hint, **options):
    """Check that the gradients are those of the same net in a plain setting."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    plain = intermediate(student, net, x, names)
    got = intermediate(student, net, x, names, **options)
    for name in names:
        own = a_tensor(plain[name], of=of)
        expect.tensor(got[name], own, of=of, name=f"the gradient of an output ({name})", hint=hint)


@pytest.mark.core
@pytest.mark.points(8)
def test_intermediate_gradients_of_named_submodules(student, rng):
    """Each result is the gradient of the net's summed output with respect to a submodule's output.

    Submodules may be nested.
    """
    several = ["blocks.1.act", "head", "blocks.0.fc", "blocks.1.fc", "blocks.0"]
    for names, scale in [
        (several, 1.0),
        (["blocks.0.act"], 1.0),
        (["head"], 1.0),
        *((several, s) for s in SCALES[1:]),
    ]:
        net, x = random_net(rng)
        net["head"] = net["head"] * scale
        got, expected = intermediate(student, net, x, names), expected_intermediate(net, x)
        for name in names:
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
    got = student.run(probes.intermediate_gradients, **inputs)
    check_names(got["result"], names)
    for name in names:
        a_tensor(got["result"][name], of="intermediate_gradients")
    check_as_it_was(got)
    # Another test judges whether it works for a frozen module and under torch.no_grad().
    for options in ({"frozen": True}, {"grad_mode": False}):
        check_as_it_was(student.run(probes.intermediate_gradients, **inputs, **options, fails=True))


@pytest.mark.points(1)
def test_intermediate_gradients_leaves_no_hook_after_an_error(student, rng):
    """After an error in the forward pass or for a name, no hook is left behind.

    The grad mode is the same as before.
    """
    net, x = random_net(rng)
    intermediate(student, net, x, ["blocks.0.fc", "head"])
    bad = {**net, "head": exact(rng, 3, net["head"].shape[1] + 1)}
    for these, names in [(bad, ["blocks.0.fc"]), (net, ["blocks.0.fc", "no.such"])]:
        inputs = {"net": {**these, "inplace": False}, "x": x, "names": names, "fails": True}
        for grad_mode in (True, False):
            got = student.run(probes.intermediate_gradients, **inputs, grad_mode=grad_mode)
            check_as_it_was(got, when=" after an error")


@pytest.mark.points(2)
def test_intermediate_gradients_touches_no_grad(student, rng):
    """intermediate_gradients changes neither x nor any .grad, whether it is None or a tensor."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    hint = "torch.autograd.grad returns gradients without storing them in .grad"
    for gradients in (False, True):
        inputs = {
            "net": {**net, "inplace": False},
            "x": x,
            "names": ["blocks.0.fc", "head"],
            "gradients": gradients,
        }
        got = student.run(probes.intermediate_gradients, **inputs)
        before, after = got["before"], got["after"]
        check_names(got["result"], inputs["names"])
        for name in inputs["names"]:
            a_tensor(got["result"][name], of=of)
        rows = (
            [*before["gradients"], before["input_gradient"]],
            [*after["gradients"], after["input_gradient"]],
        )
        for old, new in zip(*rows, strict=True):
            if old is None:
                expect.that(
                    new is None, "a .grad that was None is no longer None", of=of, hint=hint
                )
            else:
                expect.tensor(new, old, of=of, name="a .grad after the call", hint=hint)
        expect.tensor(after["input"], before["input"], of=of, name="x after the call")
        same = before["input_requires_grad"] == after["input_requires_grad"]
        expect.that(same, "x.requires_grad has changed", of=of, hint="x belongs to the caller")


@pytest.mark.points(2)
def test_intermediate_gradients_before_a_layer_that_works_in_place(student, rng):
    """The gradient is that of the submodule's output, even if the next layer overwrites it."""
    names = ["blocks.0.fc", "blocks.1.fc", "blocks.1.act"]
    hint = (
        "after an in-place operation the tensor has a different value: to which of the two "
        "does this gradient belong?"
    )
    check_against_plain(student, rng, names, inplace=True, hint=hint)


@pytest.mark.points(2)
def test_intermediate_gradients_without_grad_mode_or_trainable_parameters(student, rng):
    """intermediate_gradients works under torch.no_grad() and for a frozen module."""
    names = ["blocks.0.fc", "blocks.1", "head"]
    hint = "does anything require a gradient, and is autograd enabled?"
    check_against_plain(student, rng, names, grad_mode=False, hint=hint)
    check_against_plain(student, rng, names, frozen=True, hint=hint)
    check_against_plain(student, rng, names[1:], frozen=True, grad_mode=False, hint=hint)


@pytest.mark.points(2)
def test_intermediate_gradients_of_any_input(student, rng):
    """x may be of any shape, layout and dtype, and hold token ids; names may be a tuple."""
    of, names = "intermediate_gradients", ["blocks.0.fc", "blocks.1.act"]
    net, x = random_net(rng)
    plain = {name: a_tensor(g, of=of) for name, g in intermediate(student, net, x, names).items()}
    ids = torch.arange(len(x)).flip(0)
    for given, of_plain, options in [
        (x[0], lambda g: g[0], {}),
        (x[:0], lambda g: g[:0], {}),
        (x[:, None], lambda g: g[:, None], {}),
        (x[:1].expand(4, -1), lambda g: g[:1].expand(4, -1), {}),
        (spread(x) * 2**20, lambda g: g, {"gradients": True}),
        (spread(x), lambda g: g, {"evaluates": True}),
        (x * 2**-20, lambda g: g, {"tied": True}),
        (x, lambda g: 2 * g, {"doubles": True}),
        (ids, lambda g: g.flip(0), {"embed": x}),
    ]:
        in_net = {key: options.pop(key) for key in ("tied", "embed", "doubles") if key in options}
        got = intermediate(student, {**net, **in_net}, given, tuple(names), **options)
        for name in names:
            expected = of_plain(plain[name])
            expect.tensor(got[name], expected, of=of, name=f"the gradient of an output ({name})")
    got, expected = intermediate(student, net, 0 * x, names), expected_intermediate(net, 0 * x)
    for name in names:
        expect.tensor(got[name], expected[name], of=of, name=f"the gradient of an output ({name})")
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
    own = None
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        net = {key: weight.to(dtype) for key, weight in few.items()}
        net["blocks"] = [weight.to(dtype) for weight in blocks]
        got = intermediate(student, net, x.to(dtype), names)
        own = own or got
        for name in names:
            expect.kind(own[name], torch.Tensor, of="intermediate_gradients", name="a gradient")
            expected = own[name].to(dtype)
            which = f"the gradient of an output ({name}) in {expect.dtype_name(dtype)}"
            expect.tensor(got[name], expected, of="intermediate_gradients", name=which)


@pytest.mark.points(2)
def test_intermediate_gradients_of_an_unused_output(student, rng):
    """If the result does not depend on a submodule's output, its gradient is zeros."""
    name, hint = (
        "the gradient of an unused output",
        "return zeros of the output's shape, not None",
    )
    for names, frozen in [(["side", "blocks.1.fc"], False), (["side"], False), (["side"], True)]:
        net, x = random_net(rng)
        expected = torch.zeros(len(x), len(net["side"]), dtype=torch.float64)
        got = intermediate(student, net, x, names, frozen=frozen)
        for other in names[1:]:
            a_tensor(got[other], of="intermediate_gradients")
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
    model = probes.make_model(inputs["weights"], inputs.get("embed"))
    loss = probes.mean_loss(inputs.get("loss", "square"), inputs.get("scale", 1.0))(
        model(inputs["x"]), inputs["y"]
    )
    return loss.item(), torch.autograd.grad(loss, list(model.parameters()))


def check_chunks(
    student, inputs, micro_batch_size, expected, *, hint, expected_loss=None, atol=None, **options
):
    of = "accumulate_gradients"
    got = student.run(
        probes.accumulate_gradients, micro_batch_size=micro_batch_size, **inputs, **options
    )
    expect.that(len(got["gradients"]) == len(expected), "the model's parameters changed", of=of)
    tolerance = CHUNKS_TOLERANCE * inputs.get("scale", 1.0)
    tolerance = atol or tolerance
    if expected_loss is not None:
        loss = as_number(got["loss"])
        expect.number(loss, expected_loss, of=of, tolerance=tolerance, name="the loss", hint=hint)
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
    for micro_batch_size, scale in [
        (6, 1.0),
        (3, 1.0),
        (2, 1.0),
        (1, 1.0),
        *((2, s) for s in SCALES[1:]),
    ]:
        inputs = {**chunk_inputs(rng, 6), "scale": scale}
        check_chunks(student, inputs, micro_batch_size, whole_batch(inputs)[1], hint=hint)


@pytest.mark.points(1)
def test_accumulate_gradients_in_one_chunk(student, rng):
    """micro_batch_size may be larger than the number of rows."""
    inputs = chunk_inputs(rng, 6)
    got = student.run(probes.accumulate_gradients, micro_batch_size=6, **inputs)
    whole = [a_tensor(gradient, of="accumulate_gradients") for gradient in got["gradients"]]
    hint = "micro_batch_size is an upper bound: all rows then fit into one chunk"
    for micro_batch_size in (40, 2**53):
        loss = own_loss(got)
        check_chunks(student, inputs, micro_batch_size, whole, hint=hint, expected_loss=loss)


@pytest.mark.points(1)
def test_accumulate_gradients_cuts_full_chunks(student, rng):
    """Every chunk but one has micro_batch_size rows."""
    of = "accumulate_gradients"
    for n, micro_batch_size in [(9, 4), (10, 4), (7, 2), (6, 3), (5, 8), (3, 1)]:
        inputs = chunk_inputs(rng, n)
        got = student.run(probes.accumulate_gradients, micro_batch_size=micro_batch_size, **inputs)
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
    for changed, options in [
        ({"x": spread(x), "y": spread(y)}, {"of_data": True}),
        ({"x": x[:1].expand(x.shape), "y": y[:1].expand(y.shape)}, {"frozen": [0]}),
        ({"x": x[:, None], "y": y[:, None]}, {"evaluates": True}),
        ({}, {"unused": True}),
        ({}, {"unused": True, "already": [two["weights"][0]]}),
        ({**tokens, "x": tokens["x"][:, 0], "y": tokens["y"][:, 0]}, {}),
        ({"x": x, "y": x, "weights": [uniform(rng, x.shape[1], x.shape[1])]}, {}),
        (loss_of_zero(), {}),
        ({"x": torch.zeros_like(x), "y": torch.zeros_like(y)}, {}),
        *(({"x": x * s, "y": y * s, **linear}, {}) for s in (2.0**20, 2.0**-20)),
    ]:
        inputs = {**two, **changed}
        loss, gradients = whole_batch(inputs)
        gradients = [None if i in options.get("frozen", []) else g for i, g in enumerate(gradients)]
        gradients = options.get("already", [None] * options.get("unused", 0)) + gradients
        # A loss of squares and its gradients grow with the square of x and y.
        atol = CHUNKS_TOLERANCE * max(1.0, inputs["x"].double().abs().max().item() ** 2)
        options |= {"expected_loss": loss, "atol": atol, "hint": hint}
        check_chunks(student, inputs, 3, gradients, **options)
    check_dtypes_of_chunks(student, rng)


def loss_of_zero():
    """Data whose loss is exactly 0 in every chunk, although its gradient is not."""
    one = torch.ones(6, 1, dtype=torch.float64)
    return {"x": one, "y": torch.cat([one, -one], 1), "weights": [one[:2]], "loss": "product"}


def check_dtypes_of_chunks(student, rng):
    """Check a model of so few bits that its loss and gradients are exact in half precision."""
    i, o = sizes(rng, 2, 2, 6)
    few = {"x": (8, i), "y": (8, o), "weights": (o, i)}
    inputs = {name: torch.randint(-1, 2, shape, generator=rng) for name, shape in few.items()}
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        given = {name: x.to(dtype) for name, x in inputs.items()}
        given |= {"weights": [given["weights"]], "loss": "product"}
        loss, gradients = whole_batch(given)
        hint = "keep the dtype of the model and its data"
        check_chunks(student, given, 4, gradients, expected_loss=loss, hint=hint)


@pytest.mark.core
@pytest.mark.points(6)
def test_accumulate_gradients_with_a_short_last_chunk(student, rng):
    """If the last chunk is short, each row still has the same weight."""
    for inputs in (chunk_inputs(rng, 7), chunk_inputs(rng, 7, tokens=True)):
        _, expected = whole_batch(inputs)
        for micro_batch_size in (2, 3, 4, 5, 6):
            check_chunks(
                student,
                inputs,
                micro_batch_size,
                expected,
                hint="weight a chunk by its number of rows",
            )


# Stays: a loop over batches needs this, and another test has such gradients beside much else.
@pytest.mark.core
@pytest.mark.points(4)
def test_accumulate_gradients_adds_to_what_is_there(student, rng):
    """Gradients are added to an existing .grad, as backward does."""
    inputs = chunk_inputs(rng, 6, tokens=True)
    gradients = student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)["gradients"]
    gradients = [a_tensor(gradient, of="accumulate_gradients") for gradient in gradients]
    already = [uniform(rng, *gradient.shape) for gradient in gradients]
    expected = [old + new for old, new in zip(already, gradients, strict=True)]
    check_chunks(
        student,
        inputs,
        2,
        expected,
        already=already,
        hint="add to .grad; do not clear or rescale what it contains",
    )
    check_chunks(
        student,
        inputs,
        3,
        [*expected[:1], *gradients[1:]],
        already=already[:1],
        hint=".grad may be None or a tensor",
    )


@pytest.mark.points(4)
def test_accumulate_gradients_returns_the_mean_loss(student, rng):
    """The returned loss is loss_fn(model(x), y) of the whole batch."""
    for n, micro_batch_size, scale in [
        (6, 2, 1.0),
        (7, 3, 1.0),
        (3, 1, 1.0),
        (5, 5, 1.0),
        *((7, 2, s) for s in SCALES[1:]),
    ]:
        inputs = {**chunk_inputs(rng, n), "scale": scale}
        expected, _ = whole_batch(inputs)
        got = student.run(probes.accumulate_gradients, micro_batch_size=micro_batch_size, **inputs)[
            "loss"
        ]
        got = as_number(got)
        hint = (
            "the mean over all rows: neither the last chunk's loss nor the plain mean of the "
            "chunks' means"
        )
        tolerance = CHUNKS_TOLERANCE * scale
        expect.number(
            got,
            expected,
            of="accumulate_gradients",
            tolerance=tolerance,
            name="the loss",
            hint=hint,
        )


@pytest.mark.points(1)
def test_accumulate_gradients_returns_a_float(student, rng):
    """The loss is a Python float, not a tensor that keeps a graph alive."""
    inputs = chunk_inputs(rng, 6)
    losses = []
    for scale in (1.0, 1024.0):
        loss = student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs, scale=scale)[
            "loss"
        ]
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
    for n, micro_batch_size in [(8, 3), (6, 2)]:
        got = student.run(
            probes.accumulate_gradients,
            micro_batch_size=micro_batch_size,
            watch=True,
            **chunk_inputs(rng, n),
        )
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
        expect.that(max(got["held"]) == 0, reason, of=of, hint=hint)


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
    ]
    # With need_input_grad=False no product of G and the weight notices these.
    cases += [((4,), (4, o + 1)), ((4,), (2, 2 * o))]
    for (leading, shape), need in itertools.product(cases, (True, False)):
        args = exact(rng, *leading, i), weight, exact(rng, *shape)
        errors, when = (ValueError, RuntimeError), "grad_output does not have y's shape"
        with expect.raises(errors, of="linear_backward", when=when):
            student.autograd.linear_backward(*args, need_input_grad=need)
    net, x = random_net(rng)
    with expect.right_call("intermediate_gradients of the submodule head"):
        intermediate(student, net, x, ["head"])
    for name in ("no.such", "idle"):
        errors, when = (ValueError, AttributeError, KeyError), "no submodule with that name runs"
        with expect.raises(errors, of="intermediate_gradients", when=when):
            student.run(
                probes.intermediate_gradients,
                net={**net, "inplace": False},
                x=x,
                names=["head", name],
            )
    inputs = chunk_inputs(rng, 6)
    with expect.right_call("accumulate_gradients of 6 rows of x and of y"):
        for gradient in student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)[
            "gradients"
        ]:
            a_tensor(gradient, of="accumulate_gradients")
    for short, rows in [({"y": inputs["y"][:5]}, 2), ({"x": inputs["x"][:5]}, 2)] + [
        ({name: inputs[name][:1]}, 6) for name in "xy"
    ]:
        errors, when = (ValueError, RuntimeError), "x and y have different numbers of rows"
        with expect.raises(errors, of="accumulate_gradients", when=when):
            student.run(probes.accumulate_gradients, micro_batch_size=rows, **{**inputs, **short})
