"""autograd: backward passes by hand, a check by differences, gradients inside a module, gradients of a batch in chunks.

Accepted on purpose, since the result is the same: einsum, matmul, loops or numpy, with any layout of the result; a pair as a
list; an aten operator count of 0, which is what work outside torch looks like; forward with setup_context or without;
functions for numerical_gradient that are called with copies or with the inputs themselves, in any order and as often as one
likes; hooks on modules, on tensors or none at all; zeros that are made or that autograd materializes; torch's AttributeError
or a KeyError for a name that is none, torch's RuntimeError for shapes that do not fit; chunks that are shorter than they
could be. Not asked: one-dimensional operands of MatMul and its second derivative, submodules that run twice or return no
tensor, an empty list of names, an empty batch, losses that are no mean over rows.

The oracle is autograd on torch's own operators in float64. Where inputs have 12 bits each, every product of up to three of
them and every sum of a few such products fits into the 53 bits of a float64, so all right answers agree to the last bit and
the tolerance is 0.
"""

import math

import pytest
import torch
import torch.nn.functional as F

from tests import expect
from tests.probes import autograd as probes
from tests.probes import call_and_keep_inputs

# Numbers below 200, each the end of fewer than 1000 roundings of 1.1e-16 of their size: 1000 · 1.1e-16 · 200 < 1e-10.
CHUNKS_TOLERANCE = 1e-10
RTOL32 = torch.finfo(torch.float32).eps


def exact(rng, *shape):
    """Numbers of 12 bits between -2 and 2, in float64."""
    return torch.randint(-2048, 2049, shape, generator=rng).double() / 1024


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def gradients_of(f, inputs, upstream):
    """What autograd says."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(f(*leaves), leaves, upstream)


def pair(got, *, of):
    """A pair of gradients, as far as it is one."""
    kind = expect.type_name(got)
    expect.that(isinstance(got, (tuple, list)), f"wrong type: expected two gradients, got {kind}", of=of)
    expect.that(len(got) == 2, f"expected two gradients, got {len(got)}", of=of)
    return got


def a_tensor(got, *, of):
    """A tensor that another answer of the student's is to agree with, so that one mistake is not paid for twice."""
    expect.that(isinstance(got, torch.Tensor), f"wrong type: expected a tensor, got {expect.type_name(got)}", of=of)
    expect.that(bool(got.any()), "a gradient is 0 everywhere", of=of)
    return got


# --- linear_backward and mlp_backward


def check_linear_backward(student, x, weight, upstream, *, hint):
    expected_x, expected_weight = gradients_of(F.linear, (x, weight), upstream)
    grad_x, grad_weight = pair(student.autograd.linear_backward(x, weight, upstream), of="linear_backward")
    expect.tensor(grad_x, expected_x, of="linear_backward", name="the gradient of x", hint=hint)
    expect.tensor(grad_weight, expected_weight, of="linear_backward", name="the gradient of weight", hint=hint)


def test_linear_backward_of_a_batch(student, rng):
    """For y = x Wᵀ and any upstream gradient G: G W for x and Gᵀ x for W, in float64 as in float32."""
    n, i, o = sizes(rng, 3)
    x, weight, upstream = exact(rng, n, i), exact(rng, o, i), exact(rng, n, o)
    check_linear_backward(student, x, weight, upstream, hint="G W and Gᵀ x: what has which shape?")
    few_bits = [(t * 4).round().float() for t in (x, weight, upstream)]
    check_linear_backward(student, *few_bits, hint="gradients have the dtype of what they belong to")


def test_linear_backward_for_any_leading_dimensions(student, rng):
    """x may have no, one or several leading dimensions, also of size 0, and any strides; the weight gets the sum over all."""
    i, o = sizes(rng, 2)
    hint = "every vector of x went through the same weight"
    for leading in [(), (1,), (2, 5, 3), (0,), (3, 0, 2)]:
        check_linear_backward(student, exact(rng, *leading, i), exact(rng, o, i), exact(rng, *leading, o), hint=hint)
    turned = exact(rng, i, 3, 4).permute(2, 1, 0), exact(rng, i, o).T, exact(rng, 3, o, 4).permute(2, 0, 1)
    check_linear_backward(student, *turned, hint="x, weight and grad_output need not be contiguous")
    expanded = exact(rng, 4, i), exact(rng, o, i), exact(rng, 1, 1).expand(4, o)
    check_linear_backward(student, *expanded, hint="x, weight and grad_output need not be contiguous")


def test_linear_backward_computes_only_what_is_asked_for(student, rng):
    """With need_input_grad=False the first gradient is None, and the product for it does not run."""
    n, i, o = sizes(rng, 3)
    x, weight, upstream = exact(rng, n, i), exact(rng, o, i), exact(rng, n, o)
    got = student.run(probes.linear_backward_by_need, x=x, weight=weight, grad_output=upstream)
    first, second = pair(got["weight_alone"], of="linear_backward")
    expect.that(first is None, "a gradient of x although need_input_grad is False", of="linear_backward", hint="None")
    own = a_tensor(pair(got["both"], of="linear_backward")[1], of="linear_backward")
    expect.tensor(second, own, of="linear_backward", name="the gradient of weight without that of x")
    fewer = got["products_for_weight"] < got["products_for_both"] or got["products_for_both"] == 0
    reason = "need_input_grad=False saves no product"
    expect.that(fewer, reason, of="linear_backward", hint="is the gradient of x computed and then thrown away?")


@pytest.mark.points(2)
def test_mlp_backward_of_a_batch(student, rng):
    """The gradients of both weights of relu(x w1ᵀ) w2ᵀ for any upstream gradient."""
    for n, i, h, o in (sizes(rng, 4), sizes(rng, 4), (1, 3, 40, 2)):
        x, w1, w2, upstream = exact(rng, n, i), exact(rng, h, i), exact(rng, o, h), exact(rng, n, o)
        got = pair(student.autograd.mlp_backward(x, w1, w2, upstream), of="mlp_backward")
        expected = gradients_of(lambda w1, w2, x=x: F.linear(F.linear(x, w1).relu(), w2), (w1, w2), upstream)
        hint = "w2 saw the hidden units after relu; on the way to w1 relu lets through only what was above 0"
        expect.tensor(got[1], expected[1], of="mlp_backward", name="the gradient of w2", hint=hint)
        expect.tensor(got[0], expected[0], of="mlp_backward", name="the gradient of w1", hint=hint)


def test_mlp_backward_where_relu_is_exactly_at_zero(student, rng):
    """Where relu's input is exactly 0, it hands on no gradient, as in torch."""
    n, i, h, o = sizes(rng, 4)
    x, w1, w2, upstream = (exact(rng, *shape).abs() + 1 for shape in [(n, i), (h, i), (o, h), (n, o)])
    w1[0] = 0
    grad_w1, _ = pair(student.autograd.mlp_backward(x, w1, w2, upstream), of="mlp_backward")
    expect.tensor(a_tensor(grad_w1, of="mlp_backward").to("meta"), w1.to("meta"), of="mlp_backward", name="the gradient of w1")
    name, hint = "the gradient of w1 for a unit at 0", "what is the slope of relu at 0?"
    expect.tensor(grad_w1[0], torch.zeros_like(w1[0]), of="mlp_backward", name=name, hint=hint)


def test_by_hand_without_autograd(student, rng):
    """linear_backward and mlp_backward give under torch.inference_mode() what they give otherwise."""
    n, i, h, o = sizes(rng, 4)
    linear = [exact(rng, *shape) for shape in [(n, i), (o, i), (n, o)]]
    mlp = [exact(rng, *shape).abs() + 1 for shape in [(n, i), (h, i), (o, h), (n, o)]]  # no unit is dead
    for function, args in [("linear_backward", linear), ("mlp_backward", mlp)]:
        got = student.run(probes.by_hand_in_both_modes, function=function, args=args)
        for normal, inference in zip(pair(got["normal"], of=function), pair(got["inference"], of=function), strict=True):
            hint = "by hand: the formulas of the handout, in plain tensor operations"
            own = a_tensor(normal, of=function)
            expect.tensor(inference, own, of=function, name="a gradient in inference mode", hint=hint)


def test_leaves_its_inputs_as_they_were(student, rng):
    """linear_backward, mlp_backward and accumulate_gradients change none of their inputs."""
    n, i, h, o = sizes(rng, 4)
    linear = exact(rng, n, i), exact(rng, o, i), exact(rng, n, o)
    vector = exact(rng, i), exact(rng, o, i), exact(rng, o)
    mlp = exact(rng, n, i), exact(rng, h, i), exact(rng, o, h), exact(rng, n, o)
    for function, args in [("linear_backward", linear), ("mlp_backward", mlp), ("linear_backward", vector)]:
        given = tuple(x.clone() for x in args)
        got = student.run(call_and_keep_inputs, module="autograd", function=function, args=given)
        for x, before in zip(got["inputs"], args, strict=True):
            expect.tensor(x, before, of=function, name="an input after the call", hint="is something done in place?")
    inputs = chunk_inputs(rng, 6)
    got = student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)
    for name in ("x", "y"):
        expect.tensor(got[name], inputs[name], of="accumulate_gradients", name=f"{name} after the call")


# --- MatMul


def check_matmul(student, a, b, rng, *, upstream=None, hint=None, **options):
    """The product and both gradients are those of torch.matmul."""
    expected = a @ b
    upstream = exact(rng, *expected.shape) if upstream is None else upstream
    got = student.run(probes.matmul, a=a, b=b, upstream=upstream, **options)
    expect.tensor(got["output"], expected, of="MatMul.forward")
    if options.get("layout") == "expanded":
        upstream = upstream.flatten()[0].expand(expected.shape)
    names = ("the gradient of a", "the gradient of b")
    for name, gradient, want in zip(names, got["gradients"], gradients_of(torch.matmul, (a, b), upstream), strict=True):
        expect.tensor(gradient, want, of="MatMul.backward", name=name, hint=hint)
    return got


# Stays: the plain rule. What breaks it breaks batches as well, but not the other way round.
@pytest.mark.points(2)
def test_matmul_of_matrices(student, rng):
    """The product of two matrices, and G bᵀ and aᵀ G for any upstream gradient G."""
    for m, k, n in (sizes(rng, 3), sizes(rng, 3), (1, 4, 1)):
        check_matmul(student, exact(rng, m, k), exact(rng, k, n), rng, hint="G bᵀ and aᵀ G: what has which shape?")


def test_matmul_of_batches_and_any_strides(student, rng):
    """Operands with equal leading dimensions; operands and upstream gradients that are not contiguous, or are expanded."""
    m, k, n, batch, heads = sizes(rng, 5)
    hint = "ᵀ swaps the last two dimensions and keeps the others"
    check_matmul(student, exact(rng, batch, m, k), exact(rng, batch, k, n), rng, hint=hint)
    check_matmul(student, exact(rng, batch, heads, m, k), exact(rng, batch, heads, k, n), rng, hint=hint)
    turned = exact(rng, k, m, batch).permute(2, 1, 0), exact(rng, batch, n, k).mT
    upstream = exact(rng, n, batch, m).permute(1, 2, 0)
    check_matmul(student, *turned, rng, upstream=upstream, hint="nothing needs to be contiguous")
    operands = exact(rng, batch, heads, m, k), exact(rng, batch, heads, k, n)
    upstream = exact(rng, n, heads, m, batch).permute(3, 1, 2, 0)
    check_matmul(student, *operands, rng, upstream=upstream, hint="nothing needs to be contiguous")
    check_matmul(student, *operands, rng, layout="expanded", hint="the gradient of a sum is one number, expanded")


def broadcast_operands(rng):
    """Operands of which one or both are broadcast."""
    m, k, n, batch, heads = sizes(rng, 5)
    leading = [
        ((batch,), ()),
        ((), (batch, heads)),
        ((batch, heads), (heads,)),
        ((batch, 1), (heads,)),
        ((1, heads), (batch, 1)),
        ((1,), (batch,)),
        ((1,), ()),
    ]
    return [(exact(rng, *a, m, k), exact(rng, *b, k, n)) for a, b in leading]


@pytest.mark.points(2)
def test_matmul_of_broadcast_operands(student, rng):
    """An operand that was broadcast gets the sum of the gradients of all its uses."""
    for a, b in broadcast_operands(rng):
        check_matmul(student, a, b, rng, hint="sum over what was broadcast: missing dimensions, and dimensions of size 1")


def test_matmul_backward_returns_gradients_of_the_operands_shapes(student, rng):
    """What backward itself returns has each operand's own shape; it leaves no sum over what was broadcast to autograd."""
    for a, b in broadcast_operands(rng):
        upstream = exact(rng, *(a @ b).shape)
        returned = student.run(probes.matmul, a=a, b=b, upstream=upstream)["returned"]
        expect.that(len(returned) == 1, "backward did not run once for one backward pass", of="MatMul.backward")
        for which, gradient, x in zip("ab", pair(returned[0], of="MatMul.backward"), (a, b), strict=True):
            kept = gradient.to("meta") if isinstance(gradient, torch.Tensor) else gradient
            hint = "a gradient has the shape of what it is the gradient of"
            expect.tensor(kept, x.to("meta"), of="MatMul.backward", name=f"the gradient of {which}", hint=hint)


@pytest.mark.points(2)
def test_matmul_computes_only_the_gradients_asked_for(student, rng):
    """Where one operand needs no gradient, backward returns None for it, and the product for it does not run."""
    of = "MatMul.backward"
    m, k, n = sizes(rng, 3)
    a, b, upstream = exact(rng, m, k), exact(rng, k, n), exact(rng, m, n)
    both = student.run(probes.matmul, a=a, b=b, upstream=upstream)
    for wanted, which in enumerate("ab"):
        got = student.run(probes.matmul, a=a, b=b, upstream=upstream, needs=[which == "a", which == "b"])
        own = a_tensor(both["gradients"][wanted], of=of)
        expect.tensor(got["gradients"][wanted], own, of=of, name=f"the gradient of {which} alone")
        expect.that(len(got["returned"]) == 1, "backward did not run once for one backward pass", of=of)
        unasked = pair(got["returned"][0], of=of)[1 - wanted]
        expect.that(unasked is None, "a gradient that nobody asked for", of=of, hint="ctx.needs_input_grad")
        fewer = got["products"] < both["products"] or both["products"] == 0
        reason = "the product for a gradient that nobody asked for runs"
        expect.that(fewer, reason, of=of, hint="computed and then thrown away? ctx.needs_input_grad")


def test_matmul_notices_operands_changed_in_place(student, rng):
    """An operand that is changed in place between forward and backward is an error, and no gradient of other numbers."""
    m, k, n = sizes(rng, 3)
    a, b = exact(rng, m, k), exact(rng, k, n)
    got = student.run(probes.matmul, a=a, b=b, upstream=exact(rng, m, n))
    for gradient in got["gradients"]:
        a_tensor(gradient, of="MatMul.backward")
    for changed in (0, 1):
        raised = student.run(probes.matmul_after_a_change, a=a, b=b, changed=changed)
        reason = "an operand changed in place after the forward pass goes unnoticed"
        expect.that(raised, reason, of="MatMul", hint="how does ctx keep tensors so that autograd watches over them?")


# --- numerical_gradient


def leave_one_out(factors):
    """For each factor the product of the others."""
    return [math.prod(factors[:i] + factors[i + 1 :]) for i in range(len(factors))]


def central_differences(inputs, cubic, linear, eps, factor=1.0):
    """What central differences give, in closed form, and how far rounding may take them from it.

    ((x + e)³ - (x - e)³) / 2e = 3x² + e², and the product of sums is linear in each element. The function's value and all
    intermediate ones are below M = Σ|c|(|x| + e)³ + |factor| Π(1 + Σ|c|(|x| + e)) and take at most n + 20 roundings of 1.1e-16,
    where n is the number of elements; so do x + e and x - e, whose relative error counts up to three times. Twice that is
    divided by 2e.
    """
    wide = [x.double() for x in inputs]
    others = leave_one_out([1 + float((c * x).sum()) for c, x in zip(linear, wide, strict=True)])
    slopes = [
        c3 * (3 * x**2 + eps**2) + factor * others * c1 for c3, c1, x, others in zip(cubic, linear, wide, others, strict=True)
    ]
    reach = [x.abs() + eps for x in wide]
    largest = sum(float((c.abs() * x**3).sum()) for c, x in zip(cubic, reach, strict=True))
    largest += abs(factor) * math.prod(1 + float((c.abs() * x).sum()) for c, x in zip(linear, reach, strict=True))
    roundings = sum(x.numel() for x in inputs) + 20
    return slopes, 4 * roundings * 1.2e-16 * largest / eps


def check_differences(got, expected, inputs, *, atol, hint, dtype_matters=False):
    """The gradients are these, up to rounding; their dtype is judged in one test alone."""
    result = got["result"]
    of = "numerical_gradient"
    kind = expect.type_name(result)
    expect.that(isinstance(result, (tuple, list)), f"wrong type: expected a tuple of gradients, got {kind}", of=of)
    expect.that(len(result) == len(inputs), f"{len(result)} gradients for {len(inputs)} inputs", of=of)
    for gradient, want, x in zip(result, expected, inputs, strict=True):
        if dtype_matters or not isinstance(gradient, torch.Tensor):
            expect.tensor(gradient, want.to(x.dtype), of=of, atol=atol, rtol=RTOL32, name="a gradient", hint=hint)
        else:
            expect.tensor(gradient.double(), want.double(), of=of, atol=atol, rtol=RTOL32, name="a gradient", hint=hint)


def uniform(rng, *shape):
    """Numbers between 0.5 and 1.5 or the negatives of that, in float64."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs


def difference_inputs(rng, inputs):
    """Coefficients for a function of these inputs."""
    return {key: [uniform(rng, *x.shape) for x in inputs] for key in ("cubic", "linear")}


def test_numerical_gradient_of_several_inputs(student, rng):
    """One gradient for each input, of its shape and dtype: scalars, empty ones, float32."""
    a, b = sizes(rng, 2)
    shapes = [((a, b), torch.float64), ((), torch.float32), ((0, b), torch.float64), ((1, b, 1), torch.float64)]
    # Few bits, a product of sums alone, and a power of two for eps: nothing is rounded, in float32 either.
    inputs = [torch.randint(-8, 9, shape, generator=rng).to(dtype) / 8 for shape, dtype in shapes]
    linear = [torch.randint(1, 4, shape, generator=rng).to(dtype) for shape, dtype in shapes]
    cubic = [torch.zeros_like(x) for x in inputs]
    for count in (4, 2, 1):
        args = {"inputs": inputs[:count], "cubic": cubic[:count], "linear": linear[:count], "eps": 2.0**-6, "factor": 0.5}
        got = student.run(probes.numerical_gradient, **args)
        expected, _ = central_differences(**args)
        hint = "all the other inputs stay as they are"
        check_differences(got, expected, inputs[:count], atol=0.0, hint=hint, dtype_matters=True)


@pytest.mark.points(2)
def test_numerical_gradient_takes_central_differences(student, rng):
    """A step of eps to either side: for c·x³ that gives 3c·x² + c·eps², for small and large eps; eps is 1e-6 by default."""
    inputs = [uniform(rng, 3, 2), uniform(rng, 4)]
    coefficients = difference_inputs(rng, inputs)
    for eps in (0.25, 1e-2, 1e-4, None):
        options = {} if eps is None else {"eps": eps}
        got = student.run(probes.numerical_gradient, inputs=inputs, **coefficients, **options)
        expected, atol = central_differences(inputs, **coefficients, eps=eps or 1e-6)
        hint = "(f(x + eps) - f(x - eps)) / (2 · eps), with the eps that is given"
        check_differences(got, expected, inputs, atol=atol, hint=hint)


def test_numerical_gradient_leaves_its_inputs_bit_equal(student, rng):
    """Inputs that require a gradient or not come back bit for bit, also when the function raises, and get no .grad."""
    inputs = [uniform(rng, 2, 3), torch.tensor([1e-17, -0.0, 3e5, 1 / 3], dtype=torch.float64), uniform(rng)]
    coefficients = difference_inputs(rng, inputs)
    before = [x.clone() for x in inputs]
    of, hint = "numerical_gradient", "x + eps - 2·eps + eps is not x; and what if f raises in between?"
    for stop_at, requires_grad in [(None, False), (None, True), (1, False), (8, False), (7, True)]:
        given = [x.clone() for x in inputs]
        options = {"stop_at": stop_at, "requires_grad": requires_grad, "eps": 1e-3}
        got = student.run(probes.numerical_gradient, inputs=given, **coefficients, **options)
        if stop_at is None:
            expect.that(isinstance(got["result"], (tuple, list)), "no tuple of gradients came back", of=of)
        for x, same in zip(got["inputs"], before, strict=True):
            bits, same_bits = x.reshape(-1).view(torch.int64), same.reshape(-1).view(torch.int64)
            expect.that(torch.equal(bits, same_bits), "an input is not what it was, bit for bit", of=of, hint=hint)
        expect.that(got["gradients"] == [None] * 3, "an input has a .grad afterwards", of=of, hint="without autograd")


def test_numerical_gradient_of_inputs_that_are_not_contiguous(student, rng):
    """Transposed and stepped inputs are as good as any other."""
    inputs = [uniform(rng, 4, 3).T, uniform(rng, 6)[::2], uniform(rng, 2, 3, 2).permute(2, 0, 1)]
    coefficients = {**difference_inputs(rng, inputs), "cubic": [torch.zeros_like(x) for x in inputs]}
    expected, _ = central_differences(inputs, **coefficients, eps=1e-3)
    _, atol = central_differences(inputs, **coefficients, eps=1e-6)  # which step is taken is not judged here
    got = student.run(probes.numerical_gradient, inputs=inputs, **coefficients, eps=1e-3)
    hint = "reshape and flatten copy where a tensor is not contiguous; then who sees the change?"
    check_differences(got, expected, inputs, atol=atol, hint=hint)


def test_numerical_gradient_of_inputs_that_share_storage(student, rng):
    """Views of one storage, one tensor given twice and an expanded one: each element of each input is a variable of its own."""
    matrix, twice, row = uniform(rng, 3, 4), uniform(rng, 3), uniform(rng, 1, 4)
    inputs = [matrix, matrix[1], twice, twice, row.expand(2, 4)]
    coefficients = {**difference_inputs(rng, inputs), "cubic": [torch.zeros_like(x) for x in inputs]}
    expected, _ = central_differences(inputs, **coefficients, eps=1e-3)
    _, atol = central_differences(inputs, **coefficients, eps=1e-6)  # which step is taken is not judged here
    got = student.run(probes.numerical_gradient, inputs=inputs, **coefficients, eps=1e-3)
    check_differences(got, expected, inputs, atol=atol, hint="a step in one input is not to be seen in another one")


# --- intermediate_gradients


def random_net(rng):
    """The arguments of a net of two blocks, and an input for it."""
    n, i, h, g, o, s = sizes(rng, 6, 3, 10)
    net = {"blocks": [exact(rng, h, i), exact(rng, g, h)], "side": exact(rng, s, g), "head": exact(rng, o, g)}
    return net, exact(rng, n, i)


def expected_intermediate(net, x):
    """The gradient of the sum of the net's output with respect to each part's output."""
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
    """What intermediate_gradients gives, as far as it is a dict with these names."""
    got = student.run(probes.intermediate_gradients, net={**net, "inplace": inplace}, x=x, names=names, **options)["result"]
    of = "intermediate_gradients"
    expect.that(type(got) is dict, f"wrong type: expected a dict, got {expect.type_name(got)}", of=of)
    expect.that(set(got) == set(names), "its keys are not the names that were given", of=of)
    return got


def check_against_plain(student, rng, names, *, hint, **options):
    """The gradients are those of the same net in a plain setting."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    plain = intermediate(student, net, x, names)
    got = intermediate(student, net, x, names, **options)
    for name in names:
        own = a_tensor(plain[name], of=of)
        expect.tensor(got[name], own, of=of, name=f"the gradient of an output ({name})", hint=hint)


@pytest.mark.points(2)
def test_intermediate_gradients_of_named_submodules(student, rng):
    """The gradient of the sum of the module's output with respect to what each named submodule returned, nested ones too."""
    for names in (["blocks.1.act", "head", "blocks.0.fc", "blocks.1.fc", "blocks.0"], ["blocks.0.act"], ["head"]):
        net, x = random_net(rng)
        got, expected = intermediate(student, net, x, names), expected_intermediate(net, x)
        for name in names:
            which, hint = f"the gradient of an output ({name})", "of the sum, not of the mean; of the output, not the input"
            expect.tensor(got[name], expected[name], of="intermediate_gradients", name=which, hint=hint)


def test_intermediate_gradients_leaves_the_module_as_it_was(student, rng):
    """No hook is left behind, after an error either; hooks of others, the mode and requires_grad stay."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    bad = {**net, "head": exact(rng, 3, net["head"].shape[1] + 1)}
    calls = [
        (net, ["blocks.0.fc", "head"], False, False),
        (net, ["blocks.0.fc", "head"], True, True),  # whether a frozen module works is another test's rule
        (bad, ["blocks.0.fc"], True, False),
        (net, ["blocks.0.fc", "no.such"], True, False),
    ]
    for these, names, fails, frozen in calls:
        inputs = {"net": {**these, "inplace": False}, "x": x, "names": names, "fails": fails, "frozen": frozen}
        got = student.run(probes.intermediate_gradients, **inputs)
        before, after = got["before"], got["after"]
        if not fails:
            kind = expect.type_name(got["result"])
            expect.that(type(got["result"]) is dict, f"wrong type: expected a dict, got {kind}", of=of)
        when = " when it raised" if fails else ""
        hint = "a hook is removed by the handle that registering it returned; try … finally, or with"
        expect.that(before["hooks"] == after["hooks"], f"the module's hooks are not what they were{when}", of=of, hint=hint)
        expect.that(before["attributes"] == after["attributes"], f"the module has other attributes{when}", of=of)
        expect.that(before["training"] == after["training"], f"a mode (train or eval) has changed{when}", of=of)
        expect.that(before["requires_grad"] == after["requires_grad"], f"requires_grad has changed{when}", of=of)


def test_intermediate_gradients_touches_no_grad(student, rng):
    """The .grad of parameters and of x stay as they were, both where there is one and where there is none; and so does x."""
    of = "intermediate_gradients"
    net, x = random_net(rng)
    hint = "torch.autograd.grad returns gradients without leaving them anywhere"
    for gradients in (False, True):
        inputs = {"net": {**net, "inplace": False}, "x": x, "names": ["blocks.0.fc", "head"], "gradients": gradients}
        got = student.run(probes.intermediate_gradients, **inputs)
        before, after = got["before"], got["after"]
        expect.that(type(got["result"]) is dict, f"wrong type: expected a dict, got {expect.type_name(got['result'])}", of=of)
        rows = [*before["gradients"], before["input_gradient"]], [*after["gradients"], after["input_gradient"]]
        for old, new in zip(*rows, strict=True):
            if old is None:
                expect.that(new is None, "a .grad that was None is not any more", of=of, hint=hint)
            else:
                expect.tensor(new, old, of=of, name="a .grad after the call", hint=hint)
        expect.tensor(after["input"], before["input"], of=of, name="x after the call")
        same = before["input_requires_grad"] == after["input_requires_grad"]
        expect.that(same, "x.requires_grad has changed", of=of, hint="x belongs to the caller")


def test_intermediate_gradients_before_a_layer_that_works_in_place(student, rng):
    """The gradient belongs to what the submodule returned, also where the next layer overwrites that."""
    names = ["blocks.0.fc", "blocks.1.fc", "blocks.1.act"]
    hint = "after an in-place operation a tensor stands for another value: of which one is this the gradient?"
    check_against_plain(student, rng, names, inplace=True, hint=hint)


def test_intermediate_gradients_without_grad_mode_or_trainable_parameters(student, rng):
    """It works under torch.no_grad(), and for a module whose parameters need no gradient."""
    names = ["blocks.0.fc", "blocks.1", "head"]
    hint = "is anything there that requires a gradient, and is autograd on?"
    check_against_plain(student, rng, names, grad_mode=False, hint=hint)
    check_against_plain(student, rng, names, frozen=True, hint=hint)
    check_against_plain(student, rng, names[1:], frozen=True, grad_mode=False, hint=hint)


def test_intermediate_gradients_of_an_unused_output(student, rng):
    """A submodule that runs, but on whose output the result does not depend, has a gradient of zeros."""
    name, hint = "the gradient of an unused output", "None is no gradient; zeros of the output's shape are"
    for names in (["side", "blocks.1.fc"], ["side"]):
        net, x = random_net(rng)
        expected = torch.zeros(len(x), len(net["side"]), dtype=torch.float64)
        got = intermediate(student, net, x, names)
        for other in names[1:]:
            a_tensor(got[other], of="intermediate_gradients")
        expect.tensor(got["side"], expected, of="intermediate_gradients", name=name, hint=hint)


# --- accumulate_gradients


def chunk_inputs(rng, n, *, tokens=False):
    """A small model and n rows for it."""
    i, h, o = sizes(rng, 3)
    weights = [torch.rand(shape, generator=rng, dtype=torch.float64) * 2 - 1 for shape in [(h, i), (o, h)]]
    if not tokens:
        return {"weights": weights, "x": uniform(rng, n, i), "y": uniform(rng, n, o)}
    x, y = torch.randint(0, 5, (n, 3), generator=rng), torch.randint(0, o, (n, 3), generator=rng)
    return {"weights": weights, "x": x, "y": y, "embed": uniform(rng, 5, i), "loss": "cross_entropy"}


def whole_batch(inputs):
    """The loss of the whole batch and its gradients."""
    model = probes.make_model(inputs["weights"], inputs.get("embed"))
    loss = probes.mean_loss(inputs.get("loss", "square"))(model(inputs["x"]), inputs["y"])
    return loss.item(), torch.autograd.grad(loss, list(model.parameters()))


def check_chunks(student, inputs, micro_batch_size, expected, *, hint, **options):
    got = student.run(probes.accumulate_gradients, micro_batch_size=micro_batch_size, **inputs, **options)
    expect.that(len(got["gradients"]) == len(expected), "the model has other parameters", of="accumulate_gradients")
    for gradient, want in zip(got["gradients"], expected, strict=True):
        reason = "a parameter has no .grad afterwards"
        expect.that(gradient is not None, reason, of="accumulate_gradients", hint="one backward pass a chunk")
        name = "a parameter's .grad"
        expect.tensor(gradient, want, of="accumulate_gradients", atol=CHUNKS_TOLERANCE, name=name, hint=hint)


def test_accumulate_gradients_in_equal_chunks(student, rng):
    """Chunks of one size, or one chunk for all rows, leave the gradients of the whole batch."""
    inputs = chunk_inputs(rng, 6)
    _, expected = whole_batch(inputs)
    for micro_batch_size in (6, 3, 2, 1, 40):
        check_chunks(student, inputs, micro_batch_size, expected, hint="backward adds; the loss of all rows is a mean")


@pytest.mark.points(2)
def test_accumulate_gradients_with_a_short_last_chunk(student, rng):
    """Where the last chunk is short, each row still counts the same; also for tokens and cross-entropy."""
    for inputs in (chunk_inputs(rng, 7), chunk_inputs(rng, 7, tokens=True)):
        _, expected = whole_batch(inputs)
        for micro_batch_size in (2, 3, 4, 5, 6):
            check_chunks(student, inputs, micro_batch_size, expected, hint="a chunk counts by its rows")


def test_accumulate_gradients_adds_to_what_is_there(student, rng):
    """A .grad that is there already stays in the sum, as with backward."""
    inputs = chunk_inputs(rng, 6, tokens=True)
    gradients = student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)["gradients"]
    gradients = [a_tensor(gradient, of="accumulate_gradients") for gradient in gradients]
    already = [uniform(rng, *gradient.shape) for gradient in gradients]
    expected = [old + new for old, new in zip(already, gradients, strict=True)]
    check_chunks(student, inputs, 2, expected, already=already, hint="add to .grad; clear and scale nothing of it")
    check_chunks(student, inputs, 3, [*expected[:1], *gradients[1:]], already=already[:1], hint="a .grad may be None or not")


def test_accumulate_gradients_returns_the_mean_loss(student, rng):
    """It returns loss_fn(model(x), y) of the whole batch, as a float."""
    for n, micro_batch_size in [(6, 2), (7, 3), (5, 5)]:
        inputs = chunk_inputs(rng, n)
        expected, _ = whole_batch(inputs)
        got = student.run(probes.accumulate_gradients, micro_batch_size=micro_batch_size, **inputs)["loss"]
        hint = "of all rows: neither the last chunk's, nor the plain mean of the chunks' means"
        expect.number(got, expected, of="accumulate_gradients", tolerance=CHUNKS_TOLERANCE, hint=hint)


@pytest.mark.points(2)
def test_accumulate_gradients_holds_one_chunk_at_a_time(student, rng):
    """The model is never given more than micro_batch_size rows, and a chunk's graph is freed before the next chunk runs."""
    of = "accumulate_gradients"
    for n, micro_batch_size in [(8, 3), (6, 2)]:
        got = student.run(probes.accumulate_gradients, micro_batch_size=micro_batch_size, watch=True, **chunk_inputs(rng, n))
        rows = got["rows"]
        expect.that(sum(rows) >= n, "the model was not given every row", of=of, hint="the last chunk may be short")
        expect.that(max(rows) <= micro_batch_size, "the model is given more than micro_batch_size rows", of=of)
        hint = "one backward pass for each chunk, right after its forward pass"
        reason = "when a chunk runs, autograd still keeps tensors of earlier ones"
        expect.that(max(got["held"]) == 0, reason, of=of, hint=hint)


# --- wrong calls


def test_refuses_numbers_out_of_range(student, rng):
    """An eps that is not above 0 and a micro_batch_size below 1 are a ValueError that names the argument."""
    inputs, x = chunk_inputs(rng, 4), [uniform(rng, 2)]
    coefficients = difference_inputs(rng, x)
    student.run(probes.numerical_gradient, inputs=x, **coefficients, eps=1e-3)
    student.run(probes.accumulate_gradients, micro_batch_size=1, **inputs)
    for eps in (0.0, -1e-3):
        with expect.raises(ValueError, of="numerical_gradient", when="eps is not above 0", naming="eps"):
            student.run(probes.numerical_gradient, inputs=x, **coefficients, eps=eps)
    for size in (0, -2):
        when = "micro_batch_size is below 1"
        with expect.raises(ValueError, of="accumulate_gradients", when=when, naming="micro_batch_size"):
            student.run(probes.accumulate_gradients, micro_batch_size=size, **inputs)


def test_refuses_what_does_not_fit(student, rng):
    """A grad_output not of y's shape, a name under which no submodule runs, x and y of different lengths: each is an error."""
    i, o = sizes(rng, 2)
    weight = exact(rng, o, i)
    student.autograd.linear_backward(exact(rng, 2, 3, i), weight, exact(rng, 2, 3, o))
    for x_leading, leading in [((2, 3), (3, 2)), ((2, 3), (6,)), ((6,), (2, 3)), ((4,), (3,))]:
        args = exact(rng, *x_leading, i), weight, exact(rng, *leading, o)
        with expect.raises((ValueError, RuntimeError), of="linear_backward", when="grad_output does not have y's shape"):
            student.autograd.linear_backward(*args)
    net, x = random_net(rng)
    inputs = {"net": {**net, "inplace": False}, "x": x}
    student.run(probes.intermediate_gradients, **inputs, names=["head"])
    for name in ("no.such", "blocks.2", "idle"):
        errors, when = (ValueError, AttributeError, KeyError), "no submodule runs under a name"
        with expect.raises(errors, of="intermediate_gradients", when=when):
            student.run(probes.intermediate_gradients, **inputs, names=["head", name])
    inputs = chunk_inputs(rng, 6)
    student.run(probes.accumulate_gradients, micro_batch_size=2, **inputs)
    for rows in (5, 4):
        for short in ({"y": inputs["y"][:rows]}, {"x": inputs["x"][:rows]}):
            errors, when = (ValueError, RuntimeError), "x and y have different numbers of rows"
            with expect.raises(errors, of="accumulate_gradients", when=when):
                student.run(probes.accumulate_gradients, micro_batch_size=2, **{**inputs, **short})
