"""adamw: the optimizer of most language models. Handout §8.2."""

import torch
from torch import nn

from tests import expect

OPTIONS = {"lr": 0.1, "eps": 0.01, "weight_decay": 0.5}
# If the count of steps is kept in float32, 1 - 0.999**t changes a step of 0.05 by a few parts in
# 10,000. Mistakes change it far more.
TOLERANCE = 1e-4


def constant_gradient_step(optimizer, *parameters):
    for p in parameters:
        p.grad = torch.full_like(p, 0.01)
    optimizer.step()


def test_two_steps_of_the_example(student):
    """Two steps with the same gradient give 0.9 and then 0.805.

    1 · 0.95 − 0.1 · 0.01 / (0.01 + 0.01) = 0.9, then 0.9 · 0.95 − 0.05 = 0.805.
    """
    p = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
    optimizer = student.optimizers.AdamW([p], **OPTIONS)
    for step, expected in [(1, 0.9), (2, 0.805)]:
        constant_gradient_step(optimizer, p)
        want = torch.full((2, 3), expected, dtype=torch.float64)
        hint = "decay first; divide by √v̂ + ε, with ε outside the root"
        expect.tensor(
            p.detach(), want, of="AdamW", atol=TOLERANCE, name=f"p after step {step}", hint=hint
        )


def test_each_group_has_its_options(student):
    """A group's own lr is used, and a parameter without a gradient does not change.

    With lr 0.2: 1 · (1 − 0.2 · 0.5) − 0.2 · 0.01 / 0.02 = 0.8.
    """
    p, q, unused = (nn.Parameter(torch.ones(3)) for _ in range(3))
    optimizer = student.optimizers.AdamW(
        [{"params": [p]}, {"params": [q, unused], "lr": 0.2}], **OPTIONS
    )
    constant_gradient_step(optimizer, p, q)
    for name, parameter, expected in [("p", p, 0.9), ("q", q, 0.8), ("unused", unused, 1.0)]:
        expect.tensor(
            parameter.detach(), torch.full((3,), expected), of="AdamW", atol=TOLERANCE, name=name
        )


def test_goes_on_from_a_state_dict(student):
    """A new optimizer continues from the state_dict of the first one.

    Its step is the second step that the first optimizer would have taken.
    """
    p = nn.Parameter(torch.ones(2))
    first = student.optimizers.AdamW([p], **OPTIONS)
    p.grad = torch.full_like(p, 0.03)
    first.step()
    second = student.optimizers.AdamW([p])
    second.load_state_dict(first.state_dict())
    constant_gradient_step(second, p)
    # After step 1: 0.95 - 0.1 · 0.03 / 0.04 = 0.875.
    # Then m̂ = 0.0037 / 0.19 and v̂ = (0.999 · 9e-7 + 1e-7) / 0.001999.
    expected = 0.875 * 0.95 - 0.1 * (0.0037 / 0.19) / ((9.991e-7 / 0.001999) ** 0.5 + 0.01)
    hint = "are both means and the count of steps in self.state[p]?"
    expect.tensor(p.detach(), torch.full((2,), expected), of="AdamW", atol=TOLERANCE, hint=hint)


def test_step_returns_the_loss(student):
    """The closure is called once, and step returns what it returned."""
    p = nn.Parameter(torch.ones(2))
    losses = []

    def closure():
        losses.append((p * torch.tensor([1.0, 2.0])).sum())
        losses[-1].backward()
        return losses[-1]

    returned = student.optimizers.AdamW([p], **OPTIONS).step(closure)
    expect.value(len(losses), 1, of="AdamW.step", hint="how often is the closure called?")
    expect.tensor(
        returned, torch.tensor(3.0), of="AdamW.step", hint="step returns what the closure returned"
    )
