"""autograd: backward passes by hand, numerical gradients, and uses of autograd. Handout §6.1."""

import torch
from torch import nn

from tests import expect


def test_linear_backward_of_the_example(student):
    """[[1, 10]] @ [[3, 4], [5, 6]] = [[53, 64]] and [[1], [10]] @ [[1, 2]] = [[1, 2], [10, 20]]."""
    x, weight, upstream = (
        torch.tensor([[1.0, 2.0]]),
        torch.tensor([[3.0, 4.0], [5.0, 6.0]]),
        torch.tensor([[1.0, 10.0]]),
    )
    inputs = "x [[1, 2]], weight [[3, 4], [5, 6]], grad_output [[1, 10]]"
    grad_x, grad_weight = student.autograd.linear_backward(x, weight, upstream)
    expect.tensor(
        grad_x,
        torch.tensor([[53.0, 64.0]]),
        of="linear_backward",
        inputs=inputs,
        name="the gradient of x",
    )
    want = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    expect.tensor(
        grad_weight, want, of="linear_backward", inputs=inputs, name="the gradient of weight"
    )
    unasked, _ = student.autograd.linear_backward(x, weight, upstream, need_input_grad=False)
    expect.that(
        unasked is None,
        "a gradient of x although need_input_grad is False",
        of="linear_backward",
        hint="None",
    )


def test_mlp_backward_of_the_example(student):
    """Hidden units relu(2) = 2 and relu(-3) = 0: w2 gets [[20, 0]] and w1 gets [[50], [0]]."""
    x, w1, w2 = torch.tensor([[1.0]]), torch.tensor([[2.0], [-3.0]]), torch.tensor([[5.0, 7.0]])
    inputs = "x [[1]], w1 [[2], [-3]], w2 [[5, 7]], grad_output [[10]]"
    grad_w1, grad_w2 = student.autograd.mlp_backward(x, w1, w2, torch.tensor([[10.0]]))
    expect.tensor(
        grad_w2,
        torch.tensor([[20.0, 0.0]]),
        of="mlp_backward",
        inputs=inputs,
        name="the gradient of w2",
    )
    expect.tensor(
        grad_w1,
        torch.tensor([[50.0], [0.0]]),
        of="mlp_backward",
        inputs=inputs,
        name="the gradient of w1",
    )


def test_matmul_of_the_example(student):
    """The gradients of [[1, 2]] @ [[3], [4]] for G = [[10]] are [[30, 40]] and [[10], [20]].

    If b is used twice, its gradient is twice that.
    """
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
    for a, grad_a, grad_b in [  # noqa: B020  two copies of a share one b
        (a, torch.tensor([[30.0, 40.0]]), torch.tensor([[10.0], [20.0]])),
        (a.repeat(2, 1, 1), torch.tensor([[[30.0, 40.0]]] * 2), torch.tensor([[20.0], [40.0]])),
    ]:
        inputs = f"a {expect.describe(a)}, b [[3], [4]], gradient 10"
        leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
        product = student.autograd.MatMul.apply(*leaves)
        expect.tensor(product.detach(), a @ b, of="MatMul.forward", inputs=inputs)
        product.backward(torch.full_like(product, 10))
        for name, leaf, want in zip("ab", leaves, (grad_a, grad_b), strict=True):
            expect.tensor(
                leaf.grad, want, of="MatMul.backward", inputs=inputs, name=f"the gradient of {name}"
            )


def test_numerical_gradient_of_the_example(student):
    """x³ at 2 with eps 0.5: (2.5³ - 1.5³) / 1 = 12.25. The input is unchanged."""
    x = torch.tensor(2.0, dtype=torch.float64)
    got = student.autograd.numerical_gradient(lambda x: x**3, [x], eps=0.5)
    inputs = "f x³, x 2, eps 0.5"
    expect.kind(got, (tuple, list), of="numerical_gradient", name="the gradients")
    expect.value(
        len(got), 1, of="numerical_gradient", name="the number of gradients", inputs=inputs
    )
    expect.tensor(
        got[0],
        torch.tensor(12.25, dtype=torch.float64),
        of="numerical_gradient",
        inputs=inputs,
        atol=1e-12,
    )
    expect.tensor(
        x, torch.tensor(2.0, dtype=torch.float64), of="numerical_gradient", name="x after the call"
    )


def test_intermediate_gradients_of_the_example(student):
    """In Sequential(Linear, ReLU), the Linear's output gets 1 where it is above 0 and 0 elsewhere.

    No hook and no .grad is left.
    """
    module = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    module.load_state_dict({"0.weight": torch.tensor([[1.0, 1.0], [1.0, -1.0]])})
    got = student.autograd.intermediate_gradients(
        module, torch.tensor([[1.0, 2.0], [2.0, 1.0]]), ["0", "1"]
    )
    inputs = "outputs of 0 are [[3, -1], [3, 1]]"
    expect.kind(got, dict, of="intermediate_gradients", name="the gradients")
    expect.value(
        sorted(got), ["0", "1"], of="intermediate_gradients", name="the names", inputs=inputs
    )
    expect.tensor(
        got["0"],
        torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
        of="intermediate_gradients",
        inputs=inputs,
        name="0",
    )
    expect.tensor(got["1"], torch.ones(2, 2), of="intermediate_gradients", inputs=inputs, name="1")
    hooks = sum(len(m._forward_hooks) + len(m._backward_hooks) for m in module.modules())
    of = "intermediate_gradients"
    expect.value(hooks, 0, of=of, name="the number of hooks left", hint="is each hook removed?")
    grad, hint = module[0].weight.grad, "torch.autograd.grad leaves .grad alone"
    expect.that(grad is None, "the weight has a .grad afterwards", of=of, hint=hint)


def test_accumulate_gradients_of_the_example(student):
    """Losses 1, 2 and 6 in chunks of two: 1.5 · 2/3 + 6 · 1/3 = 3, not 3.75.

    The gradient has the same weights, and is added to the .grad that was there before.
    """
    model = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.ones_(model.weight)
    model.weight.grad = torch.full((1, 1), 100.0, dtype=torch.float64)
    x = torch.tensor([[1.0], [2.0], [6.0]], dtype=torch.float64)
    inputs = "losses [1, 2, 6], micro_batch_size 2"
    loss = student.autograd.accumulate_gradients(
        model, lambda out, y: (out - y).mean(), x, torch.zeros_like(x), 2
    )
    expect.number(
        loss,
        3.0,
        of="accumulate_gradients",
        inputs=inputs,
        tolerance=1e-12,
        hint="the weight of a chunk is its number of rows",
    )
    want = torch.full((1, 1), 103.0, dtype=torch.float64)
    expect.tensor(
        model.weight.grad,
        want,
        of="accumulate_gradients",
        inputs=inputs,
        atol=1e-12,
        name=".grad, 100 before",
    )
