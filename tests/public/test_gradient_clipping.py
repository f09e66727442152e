"""gradient_clipping: limiting the norm of all gradients together. Handout §8.3."""

import math

import torch
from torch import nn

from kit import expect

NAME = "clip_gradient_norm"


def parameters_with_gradients(*gradients, dtype=torch.float32):
    """Parameters of ones with these gradients; None means no gradient."""
    parameters = [nn.Parameter(torch.ones(2 if g is None else len(g))) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.data = p.data.to(dtype)
        p.grad = None if g is None else torch.tensor(g, dtype=dtype)
    return parameters


def check_norm(norm, expected, *, rtol=1e-6, **more):
    """Check a norm in any floating dtype."""
    expect.kind(norm, torch.Tensor, of=NAME, name="the norm")
    expect.value(tuple(norm.shape), (), of=NAME, name="the shape of the norm")
    name = "the norm"
    expect.number(norm.item(), expected, of=NAME, tolerance=rtol * expected, name=name, **more)


def check_gradient(p, expected, *, rtol=1e-6, **more):
    """Check the gradient of a parameter."""
    want = torch.tensor(expected, dtype=p.dtype)
    expect.tensor(p.grad, want, of=NAME, rtol=rtol, name="a gradient", **more)


def test_clipping_of_the_example(student):
    """[3] and [0, 4] have the norm 5; max_l2_norm 1 and ε = 5 multiply them by 1 / (5 + 5)."""
    p, q = parameters_with_gradients([3.0], [0.0, 4.0])
    inputs = "gradients [3] and [0, 4], max_l2_norm 1, eps 5"
    norm = student.optimizers.clip_gradient_norm([p, q], 1.0, eps=5.0)
    hints = {
        25.0: "the norm is the root of this sum",
        7.0: "3 + 4: add the squares, and take the root of their sum",
        7**0.5: "square the entries before they are added",
        (25 / 3) ** 0.5: "the sum of the squares, not their mean",
        0.5: "the norm before the clipping is returned, not the one after it",
        4.0: "4 is the largest entry, and the last gradient's norm: what is the norm of both?",
        10.0: "ε is only in the factor, and not in the norm that is returned",
    }
    check_norm(norm, 5.0, inputs=inputs, hints=hints)
    hints = {
        3 / (3 + 5): "one norm for all gradients together, and not one for each",
        0.6: "ε is added to the norm: 5 + 5",
        1.0: "all entries are multiplied by one factor",
        3 / 30: "divide by the norm, not by its square",
        3.0: "nothing changed: is p.grad itself changed, and not a copy of it?",
    }
    for parameter, expected in [(p, [0.3]), (q, [0.0, 0.4])]:
        check_gradient(parameter, expected, inputs=inputs, hints=hints)
    # With max_l2_norm 4 the factor is 4 / (5 + 5).
    p, q = parameters_with_gradients([3.0], [0.0, 4.0])
    student.optimizers.clip_gradient_norm([p, q], 4.0, eps=5.0)
    hint = "the norm of all gradients is above 4, although that of none of them is"
    check_gradient(p, [1.2], inputs=inputs.replace("norm 1", "norm 4"), hint=hint)


def test_a_short_gradient_stays(student):
    """A norm of 5 is within a limit of 6 or infinity: nothing changes, and 5 is returned."""
    for limit in (6.0, math.inf):
        p, q = parameters_with_gradients([3.0], [0.0, 4.0])
        norm = student.optimizers.clip_gradient_norm([p, q], limit)
        check_norm(norm, 5.0)
        is_longer = float(q.grad[1]) > 4.001
        hint = "clipping shortens what is too long; it lengthens nothing" if is_longer else None
        for parameter, expected in [(p, [3.0]), (q, [0.0, 4.0])]:
            check_gradient(parameter, expected, hint=hint)


def test_clipping_a_model(student):
    """model.parameters() is a generator.

    A gradient of [6, 8], of norm 10, becomes [1.5, 2] if max_l2_norm is 2.5.
    """
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[6.0, 8.0]])
    norm = student.optimizers.clip_gradient_norm(model.parameters(), 2.5)
    once = "a generator can be iterated over only once: a second loop sees no parameter"
    check_norm(norm, 10.0, hints={0.0: once})
    is_as_before = bool((model.weight.grad == torch.tensor([[6.0, 8.0]])).all())
    check_gradient(model.weight, [[1.5, 2.0]], hint=once if is_as_before else None)


def test_parameters_without_a_gradient(student):
    """A gradient of None does not contribute to the norm; without any gradient, the norm is 0."""
    p, unused = parameters_with_gradients([3.0, 4.0], None)
    norm = student.optimizers.clip_gradient_norm([unused, p], 2.5)
    check_norm(norm, 5.0)
    check_gradient(p, [1.5, 2.0])
    expect.that(unused.grad is None, "a gradient that was None is a tensor now", of=NAME)
    check_norm(student.optimizers.clip_gradient_norm([unused], 1.0), 0.0)


def test_works_in_place(student):
    """Each gradient stays where it is: p.grad shows the change, and so does a view made before."""
    (p,) = parameters_with_gradients([3.0, 4.0])
    view = p.grad.view(2)
    student.optimizers.clip_gradient_norm([p], 2.5)
    hint = "g.mul_(factor) changes the gradient that is there"
    want = torch.tensor([1.5, 2.0])
    expect.tensor(view, want, of=NAME, rtol=1e-6, name="a view of the gradient", hint=hint)
    expect.tensor(p.detach(), torch.ones(2), of=NAME, name="the parameter")


def test_half_precision(student):
    """In float16, 300² overflows, but the norm 500 does not. 400 bfloat16 ones have the norm 20."""
    p, q = parameters_with_gradients([300.0], [400.0], dtype=torch.float16)
    hint = "in float16, squares above 65504 are infinite: square in float32"
    check_norm(student.optimizers.clip_gradient_norm([p, q], 50.0), 500.0, rtol=0.01, hint=hint)
    check_gradient(p, [30.0], rtol=0.01)
    many = parameters_with_gradients(*[[1.0]] * 400, dtype=torch.bfloat16)
    hint = "add up in float32: a sum of ones in bfloat16 stops at 256"
    check_norm(student.optimizers.clip_gradient_norm(many, 50.0), 20.0, rtol=0.01, hint=hint)
