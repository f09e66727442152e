"""autograd: manual backward passes, numerical and intermediate gradients, gradients in chunks.

Accepted on purpose, because the result is the same: einsum, matmul, loops or numpy, with any layout
of the result; a pair as a list; an aten operator count of 0, which is what work outside torch looks
like; forward with setup_context or without; numerical_gradient calling the function with copies or
with the inputs themselves, in any order and any number of times; hooks on modules, on tensors or
none at all; a .grad that is replaced; chunks in any order.

linear_backward and mlp_backward, which must not use a graph, are called in inference mode, where
autograd records nothing. So code that hides its use of autograd from the grader fails as well.

The oracle is autograd on torch's own operators. Each input is an odd number of eighths below 2, so
every product of up to three inputs, and every sum of a hundred of these, fits into the 24 bits of a
float32. Therefore all right answers agree to the last bit and the tolerance is 0.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from kit import expect
from tests.hidden import answer_that_keeps
from tests.probes import autograd as probes

# Numbers below 100 after fewer than 100 roundings, each of relative size 6e-8.
CHUNKS_TOLERANCE = 1e-3


def exact(rng, *shape):
    """Odd numbers of eighths between -2 and 2: no sum of an odd number of products is 0."""
    return (2 * torch.randint(-8, 8, shape, generator=rng) + 1).float() / 8


def sliced(x):
    """The same numbers, not contiguous and with an offset in their storage."""
    wide = torch.full((*x.shape, 2), 7, dtype=x.dtype)
    wide[..., 1] = x
    return wide[..., 1]


def gradients_of(f, inputs, upstream):
    leaves = [x.clone().requires_grad_() for x in inputs]
    return torch.autograd.grad((f(*leaves) * upstream).sum(), leaves)


def pair(got, *, of):
    expect.kind(got, (tuple, list), of=of, name="the gradients")
    expect.that(len(got) == 2, f"expected two gradients, got {len(got)}", of=of)
    return got


# --- linear_backward and mlp_backward


def linear_inputs(rng, *leading, i=3, o=5):
    """x, weight and grad_output of a linear layer, with these leading dimensions."""
    return exact(rng, *leading, i), exact(rng, o, i), exact(rng, *leading, o)


def check_linear_backward(student, calls, *, hint, **options):
    of = "linear_backward"
    results = student.run(probes.by_hand, function=of, calls=calls, **options)
    for (x, weight, upstream), got in zip(calls, results, strict=True):
        grad_x, grad_weight = pair(got, of=of)
        want_x, want_weight = gradients_of(F.linear, (x, weight), upstream)
        expect.tensor(grad_x, want_x, of=of, name="the gradient of x", hint=hint)
        expect.tensor(grad_weight, want_weight, of=of, name="the gradient of weight", hint=hint)


# Stays: a wrong gradient is worth more than a crash.
@pytest.mark.harm("trains worse")
def test_linear_backward_for_any_leading_dimensions(student, rng):
    """For y = x Wᵀ and upstream gradient G, the gradients are G W for x and Gᵀ x for W.

    x may have no or several leading dimensions; the gradient of W sums over all of them.
    """
    calls = [linear_inputs(rng, 4), linear_inputs(rng, 3, i=3, o=3)]
    check_linear_backward(student, calls, hint="G W and Gᵀ x: which shape does each factor have?")
    calls = [linear_inputs(rng, *leading) for leading in [(), (1,), (2, 4), (2, 4, 3)]]
    hint = "every vector of x was multiplied by the same weight"
    check_linear_backward(student, calls, hint=hint)


@pytest.mark.harm("crash")
def test_linear_backward_of_views_and_parameters(student, rng):
    """x, weight and grad_output may be transposed or sliced, or require a gradient."""
    turned = exact(rng, 3, 2, 4).permute(2, 1, 0), exact(rng, 3, 5).T, exact(rng, 5, 2, 4)
    calls = [(*turned[:2], turned[2].permute(2, 1, 0)), [sliced(x) for x in linear_inputs(rng, 4)]]
    check_linear_backward(student, calls, hint="reshape copies if it has to; view does not")
    check_linear_backward(student, calls, graph=True, hint="what is different in grad mode?")


@pytest.mark.harm("crash")
def test_linear_backward_computes_only_what_is_asked_for(student, rng):
    """With need_input_grad=False the first gradient is None and its product is not computed."""
    of = "linear_backward"
    calls = [linear_inputs(rng, 4), linear_inputs(rng, 2, 4)]
    results = student.run(probes.linear_backward_by_need, calls=calls)
    for (x, weight, upstream), got in zip(calls, results, strict=True):
        first, second = pair(got["weight_alone"], of=of)
        reason = "a gradient of x although need_input_grad is False"
        expect.that(first is None, reason, of=of, hint="return None")
        _, want = gradients_of(F.linear, (x, weight), upstream)
        expect.tensor(second, want, of=of, name="the gradient of weight without that of x")
        fewer = got["products_for_weight"] < got["products_for_both"]
        reason = "need_input_grad=False does not save a product"
        hint = "is the gradient of x computed and then thrown away?"
        expect.that(fewer or got["products_for_both"] == 0, reason, of=of, hint=hint)


def check_mlp_backward(student, calls, **options):
    of = "mlp_backward"
    results = student.run(probes.by_hand, function=of, calls=calls, **options)
    for (x, w1, w2, upstream), got in zip(calls, results, strict=True):
        grad_w1, grad_w2 = pair(got, of=of)
        wants = gradients_of(lambda a, b, x=x: (x @ a.T).relu() @ b.T, (w1, w2), upstream)
        hint = (
            "the input of w2 is the hidden units after relu; on the way to w1, relu passes a "
            "gradient only where its input was above 0"
        )
        expect.tensor(grad_w2, wants[1], of=of, name="the gradient of w2", hint=hint)
        expect.tensor(grad_w1, wants[0], of=of, name="the gradient of w1", hint=hint)


def mlp_inputs(rng):
    """x, w1, w2 and grad_output; no hidden unit is 0."""
    return [exact(rng, *shape) for shape in [(4, 3), (5, 3), (2, 5), (4, 2)]]


# Stays: the plain rule; the other test is about units at 0.
@pytest.mark.harm("trains worse")
def test_mlp_backward_of_a_batch(student, rng):
    """mlp_backward returns the gradients of both weights of relu(x w1ᵀ) w2ᵀ."""
    calls = [mlp_inputs(rng), [sliced(x) for x in mlp_inputs(rng)]]
    check_mlp_backward(student, calls)
    check_mlp_backward(student, calls, graph=True)


@pytest.mark.harm("wrong number")
def test_mlp_backward_where_relu_is_exactly_at_zero(student, rng):
    """Where relu's input is exactly 0, its gradient is 0, as in torch."""
    x, w1, w2, upstream = mlp_inputs(rng)
    w1[0] = 0
    check_mlp_backward(student, [(x, w1, w2, upstream)])


# --- MatMul


def check_matmul(student, calls, rng, *, hint):
    """Check that the products and both gradients are those of torch.matmul.

    A call has a, b and perhaps the upstream gradient.
    """
    full = []
    for a, b, *upstream in calls:
        # torch.broadcast_shapes would import sympy, which takes longer than the test.
        leading = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        full.append((a, b, *(upstream or [exact(rng, *leading, a.shape[-2], b.shape[-1])])))
    results = student.run(probes.matmul_each, calls=full)
    for (a, b, upstream), got in zip(full, results, strict=True):
        expect.tensor(got["output"], a @ b, of="MatMul.forward", name="the product")
        wants = gradients_of(torch.matmul, (a, b), upstream)
        for name, gradient, want in zip("ab", got["gradients"], wants, strict=True):
            which = f"the gradient of {name}"
            expect.tensor(gradient, want, of="MatMul.backward", name=which, hint=hint)


def operands(rng, leading_a=(), leading_b=()):
    return exact(rng, *leading_a, 4, 3), exact(rng, *leading_b, 3, 5)


@pytest.mark.harm("trains worse")
def test_matmul_of_matrices_and_batches(student, rng):
    """For an upstream gradient G, the gradients are G bᵀ for a and aᵀ G for b.

    Leading dimensions are equal or broadcast. The gradient of a broadcast operand is the sum over
    all the places where it was used.
    """
    hint = "G bᵀ and aᵀ G: which shape does each factor have?"
    check_matmul(student, [operands(rng)], rng, hint=hint)
    leading = [((2, 6), (2, 6)), ((2,), ()), ((), (2, 6)), ((2, 6), (6,)), ((2, 1), (6,))]
    calls = [operands(rng, *both) for both in [*leading, ((1, 6), (2, 1))]]
    hint = "ᵀ swaps the last two dimensions; sum over broadcast ones: missing, or of size 1"
    check_matmul(student, calls, rng, hint=hint)


# Stays: an upstream gradient of a model is rarely contiguous.
@pytest.mark.harm("crash")
def test_matmul_of_any_strides(student, rng):
    """Operands may be transposed or sliced; the upstream gradient of a sum is one expanded number.

    A product with another product after it, in a model, is the same.
    """
    turned = exact(rng, 3, 4, 2).permute(2, 1, 0), exact(rng, 2, 5, 3).mT
    a, b = operands(rng, (2,))
    calls = [
        (*turned, exact(rng, 5, 2, 4).permute(1, 2, 0)),
        (a, b, exact(rng, 4, 2, 5).transpose(0, 1)),
        [sliced(x) for x in operands(rng)],
        (a, b, torch.ones(1).expand(2, 4, 5)),
    ]
    check_matmul(student, calls, rng, hint="nothing has to be contiguous")


@pytest.mark.harm("crash")
def test_matmul_computes_only_the_gradients_asked_for(student, rng):
    """If an operand needs no gradient, backward returns None for it and skips its product."""
    of = "MatMul.backward"
    calls = [(*operands(rng), exact(rng, 4, 5)), (*operands(rng, (2,)), exact(rng, 2, 4, 5))]
    results = student.run(probes.matmul_by_need, calls=calls)
    for (a, b, upstream), got in zip(calls, results, strict=True):
        wants = gradients_of(torch.matmul, (a, b), upstream)
        expect.parts(got["alone"], 2, of=of)
        for wanted, alone in enumerate(got["alone"]):
            which = f"the gradient of {'ab'[wanted]} alone"
            expect.tensor(alone["gradients"][wanted], wants[wanted], of=of, name=which)
            once = len(alone["returned"]) == 1
            expect.that(once, "backward did not run once in one backward pass", of=of)
            unasked = pair(alone["returned"][0], of=of)[1 - wanted]
            reason = "a gradient that was not requested"
            expect.that(unasked is None, reason, of=of, hint="ctx.needs_input_grad")
            fewer = alone["products"] < got["products_for_both"]
            reason = "the product for a gradient that was not requested is computed"
            hint = "is it computed and then thrown away? See ctx.needs_input_grad"
            expect.that(fewer or got["products_for_both"] == 0, reason, of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_matmul_notices_operands_changed_in_place(student, rng):
    """Changing an operand in place between forward and backward raises an error."""
    check_matmul(student, [operands(rng)], rng, hint="are the operands those of forward?")
    a, b = operands(rng)
    results = student.run(probes.matmul_after_a_change, a=a, b=b)
    expect.parts(results, 2, of="MatMul")
    reason = "an operand changed in place after the forward pass goes unnoticed"
    hint = "how does ctx save tensors so that autograd notices when they change?"
    for raised in results:
        expect.that(raised, reason, of="MatMul", hint=hint)


# --- numerical_gradient


def central_differences(inputs, cubic, linear, eps=1e-6):
    """Return the exact central differences, and the largest rounding error of a right answer.

    ((x + e)³ - (x - e)³) / 2e = 3x² + e², and the product of sums is linear in each element. The
    function's value and all intermediate ones are below M = Σ|c|(|x| + e)³ + Π(1 + Σ|c|(|x| + e)),
    and take at most n + 20 roundings of 1.1e-16, where n is the number of elements. These include
    x + e and x - e, whose relative error counts up to three times. So each value has an error of at
    most err = (n + 20) · 1.1e-16 · M, and the difference quotient one of 2 · err / 2e = err / e.
    """
    wide = [x.double() for x in inputs]
    sums = [1 + float((c * x).sum()) for c, x in zip(linear, wide, strict=True)]
    slopes = [
        c3 * (3 * x**2 + eps**2) + math.prod(sums[:i] + sums[i + 1 :]) * c1
        for i, (c3, c1, x) in enumerate(zip(cubic, linear, wide, strict=True))
    ]
    reach = [x.abs() + eps for x in wide]
    largest = sum(float((c.abs() * x**3).sum()) for c, x in zip(cubic, reach, strict=True))
    largest += math.prod(1 + float((c.abs() * x).sum()) for c, x in zip(linear, reach, strict=True))
    roundings = sum(x.numel() for x in inputs) + 20
    return slopes, 4 * roundings * 1.2e-16 * largest / eps


def check_differences(student, calls, *, hint):
    of, each = "numerical_gradient", probes.numerical_gradient_each
    results = student.run(each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        names = "inputs", "cubic", "linear", "eps"
        expected, atol = central_differences(**{k: call[k] for k in names if k in call})
        expect.kind(got["result"], (tuple, list), of=of, name="the gradients")
        number, count = len(got["result"]), len(expected)
        expect.that(number == count, f"{number} gradients for {count} inputs", of=of)
        for x, gradient, want in zip(call["inputs"], got["result"], expected, strict=True):
            near = {"atol": atol, "rtol": torch.finfo(x.dtype).eps}
            expect.tensor(gradient, want.to(x), of=of, name="a gradient", hint=hint, **near)
    return results


def uniform(rng, *shape):
    """Draw float64 numbers with absolute values between 0.5 and 1.5 and random signs."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs


def a_function_of(rng, inputs):
    coefficients = {key: [uniform(rng, *x.shape) for x in inputs] for key in ("cubic", "linear")}
    return {"inputs": inputs, **coefficients}


# Stays: the plain rule; the other tests are about views and about what is left of the inputs.
@pytest.mark.harm("wrong number")
def test_numerical_gradient_takes_central_differences(student, rng):
    """The step is eps to either side, by default 1e-6: for c·x³ the result is 3c·x² + c·eps².

    There is one gradient per input, of its shape and dtype.
    """
    steps = {"eps": 0.25}, {"eps": 1e-2}, {"eps": 1e-4}, {}
    calls = [{**a_function_of(rng, [uniform(rng, 4)]), **step} for step in steps]
    hint = "(f(x + eps) - f(x - eps)) / (2 · eps), with the given eps, in full precision"
    check_differences(student, calls, hint=hint)
    inputs = [uniform(rng, 3, 2), uniform(rng), uniform(rng, 1, 2, 1)]
    calls = [{**a_function_of(rng, inputs[:count]), "eps": 1e-3} for count in (3, 2)]
    calls += [{**a_function_of(rng, [exact(rng, 3), exact(rng, 2, 2)]), "eps": 0.25}]  # float32
    hint = "change one element at a time, and keep all other inputs as they are"
    check_differences(student, calls, hint=hint)


@pytest.mark.harm("wrong number")
def test_numerical_gradient_of_views_and_parameters(student, rng):
    """Inputs may be transposed or sliced, or require a gradient."""
    views = [uniform(rng, 4, 3).T, uniform(rng, 6)[::2], uniform(rng, 2, 3, 2).permute(2, 0, 1)]
    leaves = ({"requires_grad": False}, {"requires_grad": True})
    calls = [{**a_function_of(rng, views), "eps": 1e-3, **options} for options in leaves]
    hint = "reshape and flatten copy a non-contiguous tensor; does f then see your change?"
    check_differences(student, calls, hint=hint)


@pytest.mark.harm("not refused")
def test_numerical_gradient_leaves_its_inputs_bit_equal(student, rng):
    """The call does not change a single bit of the inputs, nor torch's grad mode or generators."""
    small_and_large = torch.tensor([1e-6 / 3, 300, 1 / 3], dtype=torch.float64)
    inputs, of = [uniform(rng, 4, 3), small_and_large], "numerical_gradient"
    before = [x.clone() for x in inputs]
    call = {**a_function_of(rng, inputs), "eps": 1e-3}
    calls = [call, {**call, "requires_grad": True}]
    for got in check_differences(student, calls, hint="is an input the same afterwards?"):
        expect.parts(got["inputs"], len(before), of=of, name="inputs")
        for x, old in zip(got["inputs"], before, strict=True):
            same, hint = torch.equal(x, old), "x + eps - 2·eps + eps is not x"
            expect.that(same, "an input has changed, if only by a bit", of=of, hint=hint)
        reason = "torch.is_grad_enabled() has changed"
        expect.that(got["grad_mode_is_the_same"], reason, of=of, hint="use torch.no_grad in a with")
        expect.generators_left(got["generators_changed"], of=of)


# --- intermediate_gradients

NAMES = ["blocks.1.act", "head", "blocks.0.fc", "blocks.1.fc", "blocks.0", "blocks.0.act"]


def random_net(rng, **options):
    """A net of two blocks, and an input for it, as arguments of the probe."""
    net = {"blocks": [exact(rng, 3, 5), exact(rng, 7, 3)], "head": exact(rng, 2, 7)}
    return {"net": net, "x": exact(rng, 4, 5), "names": NAMES, **options}


def expected_intermediate(net, x):
    """The gradient of the sum of the net's output with respect to each submodule's output."""
    h, kept = x.clone().requires_grad_(), {}
    for i, weight in enumerate(net["blocks"]):
        kept[f"blocks.{i}.fc"] = h @ weight.T
        h = F.leaky_relu(kept[f"blocks.{i}.fc"], 0.25)
        kept[f"blocks.{i}.act"] = kept[f"blocks.{i}"] = h
    kept["head"] = h @ net["head"].T
    gradients = torch.autograd.grad(kept["head"].sum(), list(kept.values()))
    return dict(zip(kept, gradients, strict=True))


def check_intermediate(student, calls, *, hint):
    of = "intermediate_gradients"
    results = student.run(probes.intermediate_gradients_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        expect.kind(got["result"], dict, of=of, name="the gradients")
        right = set(got["result"]) == set(call["names"])
        expect.that(right, "its keys are not the given names", of=of)
        expected = expected_intermediate(call["net"], call["x"])
        for name in call["names"]:
            gradient, which = got["result"][name], f"the gradient of an output ({name})"
            expect.tensor(gradient, expected[name], of=of, name=which, hint=hint)
    return results


# Stays: the plain rule, in which nothing is frozen or has a .grad.
@pytest.mark.harm("wrong number")
def test_intermediate_gradients_of_named_submodules(student, rng):
    """Each result is the gradient of the net's summed output with respect to a submodule's output.

    Submodules may be nested.
    """
    calls = [random_net(rng), *(random_net(rng, names=[name]) for name in ("blocks.0.act", "head"))]
    hint = (
        "the gradient of the sum, not of the mean, with respect to the submodule's output, not its "
        "input"
    )
    check_intermediate(student, calls, hint=hint)


@pytest.mark.harm("crash")
def test_intermediate_gradients_of_frozen_modules(student, rng):
    """intermediate_gradients works if no parameter, or only the last one, needs a gradient."""
    calls = [random_net(rng, frozen=frozen) for frozen in ("all", "blocks")]
    for got in check_intermediate(student, calls, hint="does anything require a gradient?"):
        same = got["before"]["requires_grad"] == got["after"]["requires_grad"]
        expect.that(same, "requires_grad has changed", of="intermediate_gradients")


def check_gradients_as_they_were(got, *, when=" after the call"):
    """Check that x, whether it requires a gradient, and each .grad have not changed."""
    of, before, after = "intermediate_gradients", got["before"], got["after"]
    hint = "torch.autograd.grad returns gradients without storing them in .grad"
    expect.parts(after["gradients"], len(before["gradients"]), of=of, name=".grad")
    for old, new in zip(before["gradients"], after["gradients"], strict=True):
        if old is None:
            reason = f"a .grad that was None is no longer None{when}"
            expect.that(new is None, reason, of=of, hint=hint)
        else:
            expect.tensor(new, old, of=of, name=f"a .grad{when}", hint=hint)
    expect.tensor(after["input"], before["input"], of=of, name=f"x{when}")
    same = before["input_requires_grad"] == after["input_requires_grad"]
    expect.that(same, f"x.requires_grad has changed{when}", of=of, hint="x belongs to the caller")


@pytest.mark.harm("wrong number")
def test_intermediate_gradients_touches_no_grad(student, rng):
    """intermediate_gradients changes neither x nor any .grad, whether it is None or a tensor."""
    calls = [random_net(rng, gradients=gradients) for gradients in (False, True)]
    hint = "are the gradients right where .grad holds some already?"
    for got in check_intermediate(student, calls, hint=hint):
        check_gradients_as_they_were(got)


def check_as_it_was(got, *, when=""):
    """Check that the module's hooks, modes and parts, and torch's own state, have not changed."""
    of, before, after = "intermediate_gradients", got["before"], got["after"]
    hint = "remove a hook with the handle that registering it returned, in a try … finally"
    same = before["hooks"] == after["hooks"]
    expect.that(same, f"the module's hooks have changed{when}", of=of, hint=hint)
    same = before["training"] == after["training"]
    expect.that(same, f"a mode (train or eval) has changed{when}", of=of)
    expect.that(got["grad_mode_is_the_same"], f"torch.is_grad_enabled() has changed{when}", of=of)
    expect.generators_left(got["generators_changed"], of=of)


# Stays: the plain case; the other test looks at the module after an error.
@pytest.mark.harm("crash")
def test_intermediate_gradients_leaves_the_module_as_it_was(student, rng):
    """intermediate_gradients removes its own hooks, and no others, and changes no mode."""
    hint = "are the gradients those of the module in its own mode?"
    for got in check_intermediate(student, [random_net(rng)], hint=hint):
        check_as_it_was(got)


@pytest.mark.harm("not refused")
def test_intermediate_gradients_leaves_no_hook_after_an_error(student, rng):
    """A name of no submodule is an error. No hook and no .grad is left behind after an error."""
    plain = random_net(rng)
    bad = {**plain, "net": {**plain["net"], "head": exact(rng, 3, 8)}, "names": ["blocks.0.fc"]}
    unknown = {**plain, "names": ["blocks.0.fc", "no.such"]}
    check_intermediate(student, [plain], hint="what does it return without an error?")
    calls = [{**call, "fails": True, "gradients": True} for call in (bad, unknown)]
    results = student.run(probes.intermediate_gradients_each, calls=calls)
    expect.parts(results, len(calls), of="intermediate_gradients")
    for got in results:
        expect.that(got["failed"], "no error was raised", of="intermediate_gradients")
        check_as_it_was(got, when=" after an error")
        check_gradients_as_they_were(got, when=" after an error")


@pytest.mark.harm("rare")
def test_intermediate_gradients_before_a_layer_that_works_in_place(student, rng):
    """The gradient is that of the submodule's output, even if the next layer overwrites it."""
    names = ["blocks.0.fc", "blocks.1.fc", "blocks.1.act"]
    hint = (
        "after an in-place operation the tensor has a different value: to which of the two "
        "does this gradient belong?"
    )
    calls = [random_net(rng, names=names, inplace=True, frozen=frozen) for frozen in ("", "all")]
    check_intermediate(student, calls, hint=hint)


# --- accumulate_gradients


def chunk_inputs(rng, n):
    weights = [uniform(rng, 5, 3).float(), uniform(rng, 4, 5).float()]
    return {"weights": weights, "x": uniform(rng, n, 3).float(), "y": uniform(rng, n, 4).float()}


def token_inputs(rng, n):
    """A small model of tokens, and n rows of three tokens each."""
    x = torch.randint(0, 6, (n, 3), generator=rng)
    y = torch.randint(0, 4, (n, 3), generator=rng)
    return {**chunk_inputs(rng, n), "x": x, "y": y, "embed": uniform(rng, 6, 3).float()}


def in_chunks(inputs, *sizes):
    return [{**inputs, "micro_batch_size": size} for size in sizes]


def check_chunks(student, calls, *, hint):
    """Check each .grad after several calls, and return the answers of the probe."""
    of = "accumulate_gradients"
    results = student.run(probes.accumulate_gradients_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        expected = expected_gradients(call)
        same = len(got["gradients"]) == len(expected)
        expect.that(same, "the model's parameters changed", of=of)
        for gradient, want in zip(got["gradients"], expected, strict=True):
            if want is None:
                reason = "a parameter that is frozen or unused has a .grad afterwards"
                expect.that(gradient is None, reason, of=of)
                continue
            tolerance, which = CHUNKS_TOLERANCE, "a parameter's .grad"
            expect.tensor(gradient, want, of=of, atol=tolerance, name=which, hint=hint)
    return results


def whole_batch(call):
    """The loss of the whole batch, and the model after its backward pass."""
    model = probes.make_model(**{k: call[k] for k in probes.OF_A_MODEL if k in call})
    loss = probes.mean_loss(model(call["x"]), call["y"])
    loss.backward()
    return loss.item(), model


def expected_gradients(call):
    """The .grad of each parameter after one backward pass of the whole batch."""
    return [p.grad for p in whole_batch(call)[1].parameters()]


# Stays: wrong weights are the dearest mistake; others see them by the way.
@pytest.mark.harm("trains worse")
def test_accumulate_gradients_in_chunks(student, rng):
    """Chunks of any size leave the gradients of the whole batch in .grad, also a short last one."""
    calls = in_chunks(chunk_inputs(rng, 6), 6, 3, 2, 1)
    check_chunks(student, calls, hint="backward adds to .grad; the loss is a mean over all rows")
    both = chunk_inputs(rng, 7), token_inputs(rng, 7)
    calls = [call for inputs in both for call in in_chunks(inputs, 2, 3, 5)]
    check_chunks(student, calls, hint="weight a chunk by its number of rows")


# Stays: a loop over batches needs this; others see it by the way.
@pytest.mark.harm("trains worse")
def test_accumulate_gradients_adds_to_what_is_there(student, rng):
    """Gradients are added to an existing .grad, as backward does."""
    (call,) = in_chunks(chunk_inputs(rng, 6), 2)
    already = [uniform(rng, *weight.shape).float() for weight in call["weights"]]
    calls = [{**call, "already": given} for given in (already, already[:1])]
    hint = "add to .grad; do not clear or rescale what it contains; it may be None"
    check_chunks(student, calls, hint=hint)


@pytest.mark.harm("wrong number")
def test_accumulate_gradients_returns_the_mean_loss(student, rng):
    """The result is loss_fn(model(x), y) of the whole batch, as a Python float."""
    of = "accumulate_gradients"
    calls = [*in_chunks(chunk_inputs(rng, 6), 2), *in_chunks(chunk_inputs(rng, 7), 3)]
    results = student.run(probes.accumulate_gradients_each, calls=calls)
    for call, got in zip(calls, results, strict=True):
        hint = "a tensor would keep a graph alive: .item()"
        expect.kind(got["loss"], float, of=of, name="the loss", hint=hint)
        expected, _ = whole_batch(call)
        hint = "the mean over all rows: neither the last chunk's nor the mean of the chunks' means"
        tolerance = CHUNKS_TOLERANCE
        expect.number(got["loss"], expected, of=of, tolerance=tolerance, name="the loss", hint=hint)


@pytest.mark.harm("wrong number")
def test_accumulate_gradients_holds_one_chunk_at_a_time(student, rng):
    """Only one chunk, with its graph, is in memory at a time.

    Every chunk but one has micro_batch_size rows, which may be more rows than there are.
    """
    of = "accumulate_gradients"
    cases = [(9, 4, [4, 4, 1]), (6, 3, [3, 3]), (5, 8, [5])]
    calls = [
        {**chunk_inputs(rng, n), "micro_batch_size": size, "watch": True} for n, size, _ in cases
    ]
    results = check_chunks(student, calls, hint="micro_batch_size is an upper bound")
    for (*_, expected), got in zip(cases, results, strict=True):
        rows, hint = sorted(got["rows"], reverse=True), "only the last chunk may be shorter"
        name = "the numbers of rows that the model is given"
        expect.value(rows, expected, of=of, name=name, hint=hint)
        hint = "run the backward pass of each chunk right after its forward pass"
        reason = "while a chunk runs, autograd still holds tensors of earlier chunks"
        expect.that(got["held"] == 0, reason, of=of, hint=hint)


@pytest.mark.harm("wrong number")
def test_accumulate_gradients_of_frozen_and_unused_parameters(student, rng):
    """A frozen or unused parameter keeps its .grad, which may be None or a tensor."""
    (inputs,) = in_chunks(chunk_inputs(rng, 6), 4)
    old, kinds = [uniform(rng, 5, 3).float()], ("frozen", "unused")
    calls = [{**inputs, **more, key: True} for more in ({}, {"already": old}) for key in kinds]
    check_chunks(student, calls, hint="which parameters get a gradient?")


# --- all functions


@pytest.mark.harm("not refused")
def test_leaves_its_inputs_as_they_were(student, rng):
    """The backward passes and accumulate_gradients change no input and no random generator."""
    hint = "is something changed in place?"
    of_linear = [linear_inputs(rng), linear_inputs(rng, 4)]
    check_linear_backward(student, of_linear, hint="what is left of the inputs?")
    check_mlp_backward(student, [mlp_inputs(rng)])
    by_hand = [("linear_backward", args) for args in of_linear]
    for of, args in [*by_hand, ("mlp_backward", mlp_inputs(rng))]:
        got = answer_that_keeps(student, "autograd", of, args, hint=hint)
        expect.generators_left(got["generators_changed"], of=of)
    (call,) = in_chunks(chunk_inputs(rng, 6), 2)
    (got,) = check_chunks(student, [call], hint="chunks")
    of = "accumulate_gradients"
    for name in ("x", "y"):
        expect.tensor(got[name], call[name], of=of, name=f"{name} after the call", hint=hint)
    expect.that(got["trains"], "the model is in eval mode now", of=of)
    expect.generators_left(got["generators_changed"], of=of)
