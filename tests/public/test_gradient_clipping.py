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
    hints = {
        25.0: "the norm is the root of this sum",
        7.0: "3 + 4: add the squares, and take the root of their sum",
        7**0.5: "square the entries before they are added",
        (25 / 3) ** 0.5: "the sum of the squares, not their mean",
        0.5: "the norm before the clipping is returned, not the one after it",
        4.0: "4 is the largest entry, and the last gradient's norm: what is the norm of both?",
    }
    check_norm(norm, 5.0, inputs=inputs, hints=hints)
    hints = {
        3 / (3 + 5): "one norm for all gradients together, and not one for each",
        0.6: "ε is added to the norm: 5 + 5",
        1.0: "all entries are multiplied by one factor",
        3 / 30: "divide by the norm, not by its square",
    }
    for gradient, expected in [(p.grad, [0.3]), (q.grad, [0.0, 0.4])]:
        expect.tensor(
            gradient,
            torch.tensor(expected),
            of="clip_gradient_norm",
            rtol=1e-6,
            name="a gradient",
            inputs=inputs,
            hints=hints,
        )


def test_a_short_gradient_stays(student):
    """A norm of 5 is within a limit of 5 or 6: nothing changes, and the norm is still returned."""
    for limit in (5.0, 6.0):
        p, q = parameters_with_gradients([3.0], [0.0, 4.0])
        norm = student.optimizers.clip_gradient_norm([p, q], limit)
        check_norm(norm, 5.0)
        for gradient, expected in [(p.grad, [3.0]), (q.grad, [0.0, 4.0])]:
            is_longer = float(q.grad[1]) > 4.001
            hint = "clipping shortens what is too long; it lengthens nothing" if is_longer else None
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
    once = "a generator can be iterated over only once: a second loop sees no parameter"
    check_norm(norm, 10.0, hints={0.0: once})
    is_as_before = bool((model.weight.grad == torch.tensor([[6.0, 8.0]])).all())
    hint = once if is_as_before else None
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


def clipped(student, gradients, limit, *, norm, expected, dtype=torch.float32):
    """Clip these gradients without ε; check the norm, and each gradient where it was."""
    tensors = [torch.tensor(g, dtype=dtype) for g in gradients]
    parameters = [nn.Parameter(torch.ones_like(g)) for g in tensors]
    for p, g in zip(parameters, tensors, strict=True):
        p.grad = g
    places = [g.data_ptr() for g in tensors]
    given = list(parameters)
    got = student.optimizers.clip_gradient_norm(given, limit, eps=0.0)
    of, inputs = "clip_gradient_norm", f"gradients {gradients} in {dtype}, max_l2_norm {limit}"
    check_norm(got, norm, inputs=inputs)
    expect.value(len(given), len(gradients), of=of, name="the length of the caller's list")
    for p, g, place, want in zip(parameters, tensors, places, expected, strict=True):
        is_same = p.grad is g and g.data_ptr() == place
        hint = "g.mul_(factor) changes the gradient that is there"
        expect.that(is_same, "a gradient is another tensor afterwards", of=of, hint=hint)
        want, name = torch.tensor(want, dtype=dtype), "a gradient"
        rtol = 0.01 if dtype in (torch.float16, torch.bfloat16) else 1e-6
        expect.tensor(g, want, of=of, rtol=rtol, name=name, inputs=inputs)


def test_any_limit(student):
    """A limit of 0 leaves zeros, and an infinite one leaves everything; 3, 4 have the norm 5."""
    clipped(student, [[3.0], [4.0]], 0.0, norm=5.0, expected=[[0.0], [0.0]])
    clipped(student, [[3.0], [4.0]], float("inf"), norm=5.0, expected=[[3.0], [4.0]])
    clipped(student, [[3.0], [4.0]], 5.0, norm=5.0, expected=[[3.0], [4.0]])


def test_any_size(student):
    """Large gradients get a small factor, tiny ones have a norm, and a scalar is a gradient."""
    clipped(student, [[3000.0], [4000.0]], 0.5, norm=5000.0, expected=[[0.3], [0.4]])
    clipped(student, [[3e-8], [4e-8]], 1e-8, norm=5e-8, expected=[[6e-9], [8e-9]])
    clipped(student, [3.0, 4.0], 1.0, norm=5.0, expected=[0.6, 0.8])


def test_half_precision(student):
    """In float16, 300² overflows, but the norm 500 does not. 400 bfloat16 ones have the norm 20."""
    half = torch.float16
    clipped(student, [[300.0], [400.0]], 50.0, norm=500.0, expected=[[30.0], [40.0]], dtype=half)
    ones, tenths = [1.0] * 400, [0.1] * 400
    clipped(student, [ones], 2.0, norm=20.0, expected=[tenths], dtype=torch.bfloat16)


def test_float64_is_exact(student):
    """The norm of float64 gradients is float64: √2 · (1 + 1e-10) differs from √2."""
    p = nn.Parameter(torch.ones(2, dtype=torch.float64))
    p.grad = torch.full_like(p, 1 + 1e-10)
    norm = student.optimizers.clip_gradient_norm([p], 9.0)
    expect.value(norm.dtype, torch.float64, of="clip_gradient_norm", name="the dtype of the norm")
    want, of = 2**0.5 * (1 + 1e-10), "clip_gradient_norm"
    expect.number(norm.item(), want, of=of, tolerance=1e-14, name="the norm")
