"""optimizers: SGD, AdaGrad, RMSProp and the bytes that an optimizer keeps. Handout §8.1."""

import copy

import pytest
import torch
from torch import nn

from kit import expect


def check_steps(optimizer, p, steps, *, of, hints):
    """Check p after each step; `steps` contains (gradient, expected value of every entry of p).

    `hints` maps what some mistakes make of p to the hint for each of them.
    """
    for number, (gradient, expected) in enumerate(steps, start=1):
        p.grad = torch.full_like(p, gradient)
        optimizer.step()
        want = torch.full_like(p, expected).detach()
        name = f"p after step {number}"
        expect.tensor(p.detach(), want, of=of, atol=1e-6, name=name, hints=hints)


def test_sgd_of_the_example(student):
    """With momentum, p is 0.8 and then 0.5; without momentum, 0.8 and then 0.6.

    b is 2, then 0.5 · 2 + 2 = 3: p = 1 − 0.1 · 2 = 0.8, then 0.8 − 0.1 · 3 = 0.5.
    """
    for momentum, steps in [(0.5, [(2.0, 0.8), (2.0, 0.5)]), (0.0, [(2.0, 0.8), (2.0, 0.6)])]:
        p = nn.Parameter(torch.ones(2, 3))
        optimizer = student.optimizers.SGD([p], lr=0.1, momentum=momentum)
        hints = {
            0.9: "b is g after the first step: neither μ nor 1 - μ scales g",
            0.55: "lr · (μ g + g) for the first step? b starts at 0",
            **({0.6: "is b kept from step to step?"} if momentum else {}),
            0.7: "this is Nesterov's momentum: the step is lr · b",
            1.2: "subtract lr · b",
            1.0: "p does not change: is p changed in place, also without momentum?",
        }
        check_steps(optimizer, p, steps, of="SGD", hints=hints)


def test_sgd_keeps_a_copy_of_the_gradient(student):
    """The caller reuses .grad: it holds 2 in the first step, and 4 in the second.

    b is 2, then 0.5 · 2 + 4 = 5: p = 0.8 − 0.1 · 5 = 0.3. If b were .grad itself, it would be 4
    before the second step, and not 2.
    """
    p = nn.Parameter(torch.ones(3))
    optimizer = student.optimizers.SGD([p], lr=0.1, momentum=0.5)
    p.grad = torch.full_like(p, 2.0)
    optimizer.step()
    p.grad.fill_(4.0)
    optimizer.step()
    kept = [x for x in optimizer.state[p].values() if isinstance(x, torch.Tensor)]
    is_itself = any(x.data_ptr() == p.grad.data_ptr() for x in kept)
    hint = "is b p.grad itself, which the caller goes on using? Keep a copy" if is_itself else None
    name, inputs = "p after step 2", "p 1, gradients 2 and 4 in one tensor, lr 0.1, momentum 0.5"
    want = torch.full((3,), 0.3)
    expect.tensor(p.detach(), want, of="SGD", atol=1e-6, name=name, inputs=inputs, hint=hint)


def test_adagrad_of_the_example(student):
    """p is 0.925 and then 0.85833.

    s is 9, then 25: p = 1 − 0.1 · 3 / (3 + 1), then 0.925 − 0.1 · 4 / (5 + 1).
    """
    p = nn.Parameter(torch.ones(2, 3))
    optimizer = student.optimizers.AdaGrad([p], lr=0.1, eps=1.0)
    hints = {
        1 - 0.3 / 10**0.5: "your ε is inside the root: add it to √s",
        0.9: "your step is lr · g / √s: where is ε?",
        0.925 - 0.4 / 5: "s is the sum of all squares so far: 9 + 16",
        0.7: "the square of this gradient is added to s before the step",
        0.97: "divide by √s + ε, and not by s + ε",
        0.925 - 0.4 / (12.5**0.5 + 1): "s is a sum, and not a mean",
        0.875: "add g², and not |g|",
    }
    check_steps(optimizer, p, [(3.0, 0.925), (4.0, 0.925 - 0.4 / 6)], of="AdaGrad", hints=hints)


def test_rmsprop_of_the_example(student):
    """p is 0.9, and then 0.1 · √13 / 3 less.

    v is 0.25 · 4 = 1, then 0.75 · 1 + 0.25 · 13 = 4:
    p = 1 − 0.1 · 2 / (1 + 1) = 0.9, then 0.9 − 0.1 · √13 / (2 + 1).
    """
    p = nn.Parameter(torch.ones(2, 3))
    optimizer = student.optimizers.RMSProp([p], lr=0.1, alpha=0.75, eps=1.0)
    steps = [(2.0, 0.9), (13**0.5, 0.9 - 0.1 * 13**0.5 / 3)]
    hints = {
        1 - 0.2 / 2**0.5: "your ε is inside the root: add it to √v",
        1 - 0.2 / (3**0.5 + 1): "your α and 1 - α are swapped: v ← α v + (1 - α) g²",
        1 - 0.2 / 3: "v is 1 now, and not 4: g² has the weight 1 - α, and no bias is corrected",
        0.8: "the step is lr · g / (√v + ε), with the new v",
        0.9 - 0.1 * 13**0.5 / 5: "divide by √v + ε, and not by v + ε",
    }
    check_steps(optimizer, p, steps, of="RMSProp", hints=hints)


def test_state_bytes_of_the_example(student):
    """Adam keeps two means per weight, and nothing before its first step.

    After a step on a 3×4 float32 weight that is 2 · 12 · 4 = 96 bytes.
    """
    weight = nn.Parameter(torch.ones(3, 4))
    optimizer = torch.optim.Adam([weight])
    of = "optimizer_state_bytes"
    got, hints = student.optimizers.optimizer_state_bytes(optimizer), {48: "weights are no state"}
    expect.value(got, 0, of=of, inputs="Adam before its first step", hints=hints)
    weight.grad = torch.ones(3, 4)
    optimizer.step()
    hints = {
        100: "a count of steps is not counted",
        24: "these are elements: how many bytes does each take?",
        144: "the weights and gradients are no state",
        48: "all tensors of the state count: two for each weight",
    }
    got = student.optimizers.optimizer_state_bytes(optimizer)
    expect.value(got, 96, of=of, inputs="Adam after a step on float32[3, 4]", hints=hints)


WIDE = torch.tensor([1e-4, -1e-3, 1.0, -300.0])
# Each optimizer with options of its own, and torch's with the same.
SAME_AS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, {"momentum": 0.5}),
    "AdaGrad": (torch.optim.Adagrad, {"lr": 0.1, "eps": 1e-3}, {"eps": 0.1}),
    "RMSProp": (
        torch.optim.RMSprop,
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-3},
        {"alpha": 0.5, "eps": 0.1},
    ),
}


def weights(count):
    return [nn.Parameter(torch.linspace(-1, 1, 4)) for _ in range(count)]


def both(student, name, **options):
    """The student's optimizer and torch's, in two groups, each on weights of its own."""
    theirs, defaults, of_second_group = SAME_AS[name]
    made = []
    for optimizer in (getattr(student.optimizers, name), theirs):
        first, second = weights(2), weights(1)
        groups = [{"params": first}, {"params": second, "lr": 0.01, **of_second_group}]
        made.append((optimizer(groups, **{**defaults, **options}), [*first, *second]))
    return made


def step(optimizer, parameters, gradients):
    for p, gradient in zip(parameters, gradients, strict=True):
        p.grad = None if gradient is None else gradient.clone()
    optimizer.step()


def check_same(got, want, *, of, when, hint=None):
    for number, (p, q) in enumerate(zip(got, want, strict=True), 1):
        name = f"parameter {number} of {len(want)} {when}"
        expect.tensor(p.detach(), q.detach(), of=of, atol=1e-6, rtol=1e-5, name=name, hint=hint)


@pytest.mark.parametrize("name", SAME_AS)
def test_several_steps_agree_with_torch(student, name):
    """Small and large gradients, two groups with their own options, and an lr of 0 for one step.

    In the second step the first parameter has no gradient: neither it nor its state changes.
    """
    (mine, p), (theirs, q) = both(student, name)
    rates = {1: 0.0, 2: 0.3}
    for number in range(4):
        gradients = [WIDE * (number + 1), WIDE.flip(0), WIDE * 2]
        if number == 1:
            gradients[0] = None
        if number in rates:
            mine.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = rates[number]
        for optimizer, parameters in ((mine, p), (theirs, q)):
            step(optimizer, parameters, gradients)
        check_same(p, q, of=name, when=f"after step {number + 1}")


@pytest.mark.parametrize("name", SAME_AS)
def test_a_step_changes_p_in_place_and_leaves_its_gradient(student, name):
    """Each parameter keeps its storage, and .grad does not change, in the second step as well."""
    (mine, p), _ = both(student, name)
    before = [parameter.data_ptr() for parameter in p]
    for _ in range(2):
        step(mine, p, [WIDE] * 3)
    after = [parameter.data_ptr() for parameter in p]
    expect.that(before == after, "p has a different storage after a step", of=name)
    for parameter in p:
        expect.tensor(parameter.grad, WIDE, of=name, name=".grad after the step")


@pytest.mark.parametrize("name", SAME_AS)
def test_a_group_that_is_added_later_is_updated(student, name):
    """The state of a parameter that joins later begins with its own first step."""
    (mine, p), (theirs, q) = both(student, name)
    step(mine, p, [WIDE] * 3)
    step(theirs, q, [WIDE] * 3)
    p += weights(1)
    mine.add_param_group({"params": p[-1:]})
    step(mine, p, [WIDE] * 4)
    # An optimizer of its own, because torch's Adagrad cannot add a group in some versions of torch.
    kind, options, _ = SAME_AS[name]
    step(theirs, q, [WIDE] * 3)
    q += weights(1)
    step(kind(q[-1:], **options), q[-1:], [WIDE])
    check_same(p, q, of=name, when="after a step with a new group")


@pytest.mark.parametrize("name", SAME_AS)
def test_a_new_optimizer_goes_on_from_a_state_dict(student, name):
    """Its next step is the step that the original optimizer would have taken."""
    (mine, p), (theirs, q) = both(student, name)
    step(mine, p, [WIDE] * 3)
    step(theirs, q, [WIDE] * 3)
    copied = [nn.Parameter(parameter.detach().clone()) for parameter in p]
    resumed = getattr(student.optimizers, name)([{"params": copied[:2]}, {"params": copied[2:]}])
    resumed.load_state_dict(copy.deepcopy(mine.state_dict()))
    for optimizer, parameters in ((mine, p), (resumed, copied), (theirs, q)):
        step(optimizer, parameters, [WIDE] * 3)
    check_same(p, q, of=name, when="after a second step")
    hint = "is everything that the optimizer remembers in self.state[p]?"
    check_same(copied, q, of=name, when="after a resumed step", hint=hint)


@pytest.mark.parametrize("name", SAME_AS)
def test_the_closure_is_called_once_before_the_step(student, name):
    """Gradients are enabled in the closure, and step returns the closure's result."""
    (mine, p), _ = both(student, name)
    before = [parameter.detach().clone() for parameter in p]
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        check_same(p, before, of=f"{name}.step", when="when the closure is called")
        return 7.0

    step(mine, p, [None] * 3)  # without a gradient, nothing moves
    for parameter in p:
        parameter.grad = WIDE.clone()
    got = mine.step(closure)
    expect.value(calls, [True], of=f"{name}.step", name="calls of the closure (gradients enabled)")
    expect.value(got, 7.0, of=f"{name}.step", hint="step returns what the closure returned")


def test_state_bytes_of_torchs_optimizers(student):
    """Two dtypes in two groups: AdamW keeps two tensors per weight, SGD with momentum keeps one.

    AdamW: 2 · 6 · 8 + 2 · 5 · 2 = 116 bytes, SGD half of it. A count of steps, a number and a
    tensor with one element do not count.
    """
    for optimizer, options, expected in (
        (torch.optim.AdamW, {}, 116),
        (torch.optim.SGD, {"momentum": 0.9}, 58),
    ):
        wide = nn.Parameter(torch.ones(2, 3, dtype=torch.float64))
        narrow = nn.Parameter(torch.ones(5, dtype=torch.bfloat16))
        made = optimizer([{"params": [wide]}, {"params": [narrow]}], **options)
        for p in (wide, narrow):
            p.grad = torch.ones_like(p)
        made.step()
        made.state[wide] |= {"note": "text", "one": torch.ones(1)}
        inputs = f"{optimizer.__name__}, float64[2, 3] and bfloat16[5]"
        got = student.optimizers.optimizer_state_bytes(made)
        hints = {88: "not every element takes 4 bytes", 22: "in bytes, not in elements"}
        hints |= {96: "the second group has state, too", 124: "a count of steps is not counted"}
        hints = hints if expected == 116 else {}
        expect.value(got, expected, of="optimizer_state_bytes", inputs=inputs, hints=hints)
