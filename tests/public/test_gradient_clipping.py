"""gradient_clipping: limiting the norm of all gradients together. Handout §8.3."""

import torch
from torch import nn

from kit import expect


def parameters_with_gradients(*gradients):
    """Parameters of ones with these gradients; None means no gradient."""
    parameters = [nn.Parameter(torch.ones(2 if g is None else len(g))) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = None if g is None else torch.tensor(g)
    return parameters


def check_norm(norm, expected, **more):
    """Check a norm in any floating dtype."""
    of = "clip_gradient_norm"
    expect.kind(norm, torch.Tensor, of=of, name="the norm")
    expect.value(tuple(norm.shape), (), of=of, name="the shape of the norm")
    tolerance = 1e-6 * expected
    expect.number(norm.item(), expected, of=of, tolerance=tolerance, name="the norm", **more)


def test_clipping_of_the_example(student):
    """[3] and [0, 4] have the norm 5; max_l2_norm 1 and ε = 5 multiply them by 1 / (5 + 5)."""
    p, q = parameters_with_gradients([3.0], [0.0, 4.0])
    norm = student.optimizers.clip_gradient_norm([p, q], 1.0, eps=5.0)
    inputs = "gradients [3] and [0, 4], max_l2_norm 1, eps 5"
    check_norm(norm, 5.0, inputs=inputs)
    hint = "one norm for all gradients together"
    for gradient, expected in [(p.grad, [0.3]), (q.grad, [0.0, 0.4])]:
        expect.tensor(
            gradient,
            torch.tensor(expected),
            of="clip_gradient_norm",
            rtol=1e-6,
            name="a gradient",
            inputs=inputs,
            hint=hint,
        )


def test_a_short_gradient_stays(student):
    """A norm of 5 is within a limit of 5 or 6: nothing changes, and the norm is still returned."""
    for limit in (5.0, 6.0):
        p, q = parameters_with_gradients([3.0], [0.0, 4.0])
        norm = student.optimizers.clip_gradient_norm([p, q], limit)
        check_norm(norm, 5.0)
        for gradient, expected in [(p.grad, [3.0]), (q.grad, [0.0, 4.0])]:
            hint = "clipping shortens what is too long; it lengthens nothing"
            expect.tensor(
                gradient,
                torch.tensor(expected),
                of="clip_gradient_norm",
                rtol=1e-6,
                name="a gradient",
                hint=hint,
            )


def test_clipping_a_model(student):
    """model.parameters() is a generator.

    A gradient of [6, 8], of norm 10, becomes [1.5, 2] if max_l2_norm is 2.5.
    """
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[6.0, 8.0]])
    norm = student.optimizers.clip_gradient_norm(model.parameters(), 2.5, eps=0.0)
    check_norm(norm, 10.0)
    hint = "a generator can be iterated over only once: a second loop sees no parameter"
    want = torch.tensor([[1.5, 2.0]])
    expect.tensor(
        model.weight.grad, want, of="clip_gradient_norm", rtol=1e-6, name="a gradient", hint=hint
    )


def test_parameters_without_a_gradient(student):
    """A gradient of None does not contribute to the norm; without any gradient, the norm is 0."""
    p, unused = parameters_with_gradients([3.0, 4.0], None)
    norm = student.optimizers.clip_gradient_norm([unused, p], 2.5, eps=0.0)
    check_norm(norm, 5.0)
    expect.tensor(
        p.grad, torch.tensor([1.5, 2.0]), of="clip_gradient_norm", rtol=1e-6, name="a gradient"
    )
    expect.that(
        unused.grad is None,
        "a parameter without a gradient has one after the call",
        of="clip_gradient_norm",
    )
    check_norm(student.optimizers.clip_gradient_norm([unused], 1.0), 0.0)
