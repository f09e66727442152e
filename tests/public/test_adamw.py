"""adamw: the optimizer of most language models. Handout §8.2."""

import copy

import torch
from torch import nn

from kit import expect

OPTIONS = {"lr": 0.1, "eps": 0.01, "weight_decay": 0.5}
# If the count of steps is kept in float32, 1 - 0.999**t changes a step of 0.05 by a few parts in
# 10,000. Mistakes change it far more.
TOLERANCE = 1e-4


def constant_gradient_step(optimizer, *parameters):
    for p in parameters:
        p.grad = torch.full_like(p, 0.01)
    optimizer.step()


# The first parameter after one step of the example, for some mistakes.
AFTER_A_MISTAKE = {
    0.94004963: "your ε is inside the root: add it to √v̂",
    0.94693465: "your ε grows with the bias correction: divide by √v̂ + ε, with v̂ = v / (1 - β₂ᵗ)",
    0.94030653: "the bias correction is missing: m̂ = m / (1 - β₁ᵗ), v̂ = v / (1 - β₂ᵗ)",
    0.94090909: "v averages g², and not g",
    0.90192308: "your decay is in the gradient: subtract lr · λ · p from p itself",
    0.9025: "your parameter decays after the step: decay it first",
    0.45: "your decay lacks lr: p − lr · λ · p",
    0.95: "the decay and the step move p by 0.05 each: one of the two is missing",
    1.0: "p is 1 as before: is it changed in place, and does λ make it smaller?",
}
PLAIN = "while every gradient is 0.01, m̂ and √v̂ are 0.01 after each step: print both"
COUNTS = "each parameter counts its own steps: keep t in self.state[p]"


def test_two_steps_of_the_example(student):
    """Two steps with the same gradient give 0.9 and then 0.805.

    1 · 0.95 − 0.1 · 0.01 / (0.01 + 0.01) = 0.9, then 0.9 · 0.95 − 0.05 = 0.805.
    """
    p = nn.Parameter(torch.ones(2, 3))
    optimizer = student.optimizers.AdamW([p], **OPTIONS)
    for step, expected in [(1, 0.9), (2, 0.805)]:
        constant_gradient_step(optimizer, p)
        want = torch.full((2, 3), expected)
        hints, name = AFTER_A_MISTAKE if step == 1 else {}, f"p after step {step}"
        more = {"atol": TOLERANCE, "hint": PLAIN, "hints": hints}
        expect.tensor(p.detach(), want, of="AdamW", name=name, **more)


def test_each_group_has_its_options(student):
    """A group's own lr is used, and a parameter without a gradient does not change.

    With lr 0.2: 1 · (1 − 0.2 · 0.5) − 0.2 · 0.01 / 0.02 = 0.8.
    """
    p, q, unused = (nn.Parameter(torch.ones(3)) for _ in range(3))
    groups = [{"params": [p]}, {"params": [q, unused], "lr": 0.2}]
    optimizer = student.optimizers.AdamW(groups, **OPTIONS)
    constant_gradient_step(optimizer, p, q)
    hints = {0.838345: COUNTS, 0.9: "q's group has an lr of its own: read it from the group"}
    for name, parameter, expected in [("p", p, 0.9), ("q", q, 0.8), ("unused", unused, 1.0)]:
        got, want = parameter.detach(), torch.full((3,), expected)
        expect.tensor(got, want, of="AdamW", atol=TOLERANCE, name=name, hints=hints)


def test_goes_on_from_a_state_dict(student):
    """A new optimizer continues from the state_dict of the first one.

    Its step is the second step that the first optimizer would have taken.
    """
    p = nn.Parameter(torch.ones(2))
    first = student.optimizers.AdamW([p], **OPTIONS)
    p.grad = torch.full_like(p, 0.03)
    first.step()
    state, resumed = copy.deepcopy(first.state_dict()), nn.Parameter(p.detach().clone())
    constant_gradient_step(first, p)
    second = student.optimizers.AdamW([resumed])
    second.load_state_dict(state)
    constant_gradient_step(second, resumed)
    # After step 1: 0.95 - 0.1 · 0.03 / 0.04 = 0.875.
    # Then m̂ = 0.0037 / 0.19 and v̂ = (0.999 · 9e-7 + 1e-7) / 0.001999.
    expected = 0.875 * 0.95 - 0.1 * (0.0037 / 0.19) / ((9.991e-7 / 0.001999) ** 0.5 + 0.01)
    want, hint = torch.full((2,), expected), "are m, v and the count of steps in self.state[p]?"
    more = {"of": "AdamW", "atol": TOLERANCE, "hints": {0.76854: "β₁ is of m, and β₂ of v"}}
    for got, name, told in ((p, "the first optimizer", None), (resumed, "the new one", hint)):
        expect.tensor(got.detach(), want, name=f"p after step 2, by {name}", hint=told, **more)


def test_the_closure_is_called_once_before_the_step(student):
    """Gradients are enabled in it, its gradients are used, and step returns its result."""
    p, losses = nn.Parameter(torch.ones(2)), []

    def closure():
        expect.tensor(p.detach(), torch.ones(2), of="AdamW.step", name="p in the closure")
        losses.append((0.01 * p).sum())
        losses[-1].backward()
        return losses[-1]

    returned = student.optimizers.AdamW([p], **OPTIONS).step(closure)
    expect.value(len(losses), 1, of="AdamW.step", hint="how often is the closure called?")
    hint, want = "step returns what the closure returned", torch.tensor(0.02)
    expect.tensor(returned, want, of="AdamW.step", rtol=1e-5, hint=hint)
    expect.tensor(p.detach(), torch.full((2,), 0.9), of="AdamW.step", atol=TOLERANCE)


WIDE = torch.tensor([1e-4, -1e-3, 1.0, -30.0])


def weights(count):
    return [nn.Parameter(torch.linspace(-1, 1, 4)) for _ in range(count)]


def check_same(got, want, *, when):
    for number, (p, q) in enumerate(zip(got, want, strict=True), 1):
        name = f"parameter {number} of {len(want)} {when}"
        expect.tensor(p.detach(), q.detach(), of="AdamW", atol=1e-6, rtol=TOLERANCE, name=name)


def test_many_steps_agree_with_torch(student):
    """Two groups, one with its own betas and weight decay, and a new lr after step 6.

    In step 3 the first parameter has no gradient: it does not decay, and its t does not change.
    No gradient changes, and each parameter keeps its storage.
    """
    p, q = weights(4), weights(4)
    options, own = {"lr": 0.01, "eps": 1e-6, "weight_decay": 0.0}, {"betas": (0.5, 0.9)}
    own["weight_decay"] = 0.1
    made = [
        optimizer([{"params": ps[:2]}, {"params": ps[2:], **own}], **options)
        for optimizer, ps in ((student.optimizers.AdamW, p), (torch.optim.AdamW, q))
    ]
    storages = [parameter.data_ptr() for parameter in p]
    for number in range(1, 16):
        if number == 7:
            for optimizer in made:
                optimizer.param_groups[0]["lr"] = 0.03
        for parameters, optimizer in zip((p, q), made, strict=True):
            for parameter in parameters:
                parameter.grad = WIDE * (1 + number % 3)
            if number == 3:
                parameters[0].grad = None
            optimizer.step()
        check_same(p, q, when=f"after step {number}")
        for parameter in p[1:]:
            expect.tensor(parameter.grad, WIDE * (1 + number % 3), of="AdamW", name=".grad")
    same = storages == [parameter.data_ptr() for parameter in p]
    expect.that(same, "p has a different storage after a step", of="AdamW")


def test_a_warm_up_begins_at_0(student):
    """With lr 0 no weight moves, but m, v and t change: then 0.9, as in the example."""
    p = nn.Parameter(torch.ones(2))
    optimizer = student.optimizers.AdamW([p], **OPTIONS)
    for rate, expected in [(0.0, 1.0), (0.1, 0.9)]:
        optimizer.param_groups[0]["lr"] = rate
        constant_gradient_step(optimizer, p)
        want, name = torch.full((2,), expected), f"p after a step with lr {rate}"
        expect.tensor(p.detach(), want, of="AdamW", atol=TOLERANCE, name=name)


def test_a_group_that_is_added_later_is_updated(student):
    """A later parameter counts steps from its own first one: 0.9, as for a new optimizer."""
    p, late = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = student.optimizers.AdamW([p], **OPTIONS)
    constant_gradient_step(optimizer, p)
    optimizer.add_param_group({"params": [late]})
    constant_gradient_step(optimizer, p, late)
    got, want, name = late.detach(), torch.full((3,), 0.9), "a parameter that was added later"
    hints = {0.9191724: COUNTS, 0.9266117: COUNTS}
    expect.tensor(got, want, of="AdamW", atol=TOLERANCE, name=name, hints=hints)
