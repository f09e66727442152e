"""optimizers: SGD, AdaGrad, RMSProp and the bytes that an optimizer keeps. Handout §8.1."""

import torch
from torch import nn

from tests import expect


def check_steps(optimizer, p, steps, *, of, hint=None):
    """Check p after each step; `steps` contains (gradient, expected value of every entry of p)."""
    for number, (gradient, expected) in enumerate(steps, start=1):
        p.grad = torch.full_like(p, gradient)
        optimizer.step()
        want = torch.full_like(p, expected).detach()
        expect.tensor(p.detach(), want, of=of, atol=1e-6, name=f"p after step {number}", hint=hint)


def test_sgd_of_the_example(student):
    """With momentum, p is 0.8 and then 0.5; without momentum, 0.8 and then 0.6.

    b is 2, then 0.5 · 2 + 2 = 3: p = 1 − 0.1 · 2 = 0.8, then 0.8 − 0.1 · 3 = 0.5.
    """
    for momentum, steps in [(0.5, [(2.0, 0.8), (2.0, 0.5)]), (0.0, [(2.0, 0.8), (2.0, 0.6)])]:
        p = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
        optimizer = student.optimizers.SGD([p], lr=0.1, momentum=momentum)
        check_steps(
            optimizer, p, steps, of="SGD", hint="the first step is lr · g, with or without momentum"
        )


def test_adagrad_of_the_example(student):
    """p is 0.925 and then 0.85833.

    s is 9, then 25: p = 1 − 0.1 · 3 / (3 + 1), then 0.925 − 0.1 · 4 / (5 + 1).
    """
    p = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
    optimizer = student.optimizers.AdaGrad([p], lr=0.1, eps=1.0)
    check_steps(
        optimizer, p, [(3.0, 0.925), (4.0, 0.925 - 0.4 / 6)], of="AdaGrad", hint="ε is added to √s"
    )


def test_rmsprop_of_the_example(student):
    """p is 0.9, and then 0.1 · √13 / 3 less.

    v is 0.25 · 4 = 1, then 0.75 · 1 + 0.25 · 13 = 4:
    p = 1 − 0.1 · 2 / (1 + 1) = 0.9, then 0.9 − 0.1 · √13 / (2 + 1).
    """
    p = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
    optimizer = student.optimizers.RMSProp([p], lr=0.1, alpha=0.75, eps=1.0)
    steps = [(2.0, 0.9), (13**0.5, 0.9 - 0.1 * 13**0.5 / 3)]
    check_steps(optimizer, p, steps, of="RMSProp", hint="ε is added to √v, and v is not corrected")


def test_state_bytes_of_the_example(student):
    """Adam keeps two means per weight, and nothing before its first step.

    After a step on a 3×4 float32 weight that is 2 · 12 · 4 = 96 bytes.
    """
    weight = nn.Parameter(torch.ones(3, 4))
    optimizer = torch.optim.Adam([weight])
    expect.value(student.optimizers.optimizer_state_bytes(optimizer), 0, of="optimizer_state_bytes")
    weight.grad = torch.ones(3, 4)
    optimizer.step()
    hint = "a count of steps is not counted"
    expect.value(
        student.optimizers.optimizer_state_bytes(optimizer),
        96,
        of="optimizer_state_bytes",
        hint=hint,
    )
