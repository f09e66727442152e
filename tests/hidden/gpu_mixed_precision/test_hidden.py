"""gpu_mixed_precision: a step that computes in bfloat16 without loss of precision in the weights.

Every test here runs on a CPU, where it earns no points, and again, from cuda/, on a GPU:
torch.autocast exists on both.

All numbers are small integers and their quotients by powers of two, which are exact in bfloat16,
and so is every sum here. Therefore the oracle is float64 and the tolerance is one float32 rounding,
whatever the order of the sums.

Accepted on purpose: autocast around model and loss, or around the model alone; clip_grad_norm_
with or without its 1e-6; a GradScaler that is not enabled.
"""

import math

import pytest
import torch

from tests.hidden import ExpectOf
from tests.probes import gpu as probes

expect = ExpectOf("autocast_train_step")

FP32, BF16 = torch.float32, torch.bfloat16
RTOL = 2.0**-22


def integers(rng, *shape, high=2):
    """Draw small integers, as float32."""
    return torch.randint(-high, high + 1, shape, generator=rng).float()


def problem(rng, *, count=1):
    """Weights of one linear map, and batches for it.

    Sums stay below 2**8 of their units, and no gradient is all zeros.
    """
    features, outputs = int(torch.randint(3, 6, (), generator=rng)), 4
    data = []
    for _ in range(count):
        x, y = integers(rng, 2, features), integers(rng, 2, outputs, high=3) + 0.5
        # An error is an odd number of halves. One error times 2 plus another times 1 is never 0.
        x[:, 0] = torch.tensor([2.0, 1.0])
        data.append((x, y))
    return [integers(rng, outputs, features)], data


def gradients(weights, x, y, scale=1.0):
    """Loss and gradients of the mean of (output - y)² / 2, in float64."""
    copies = [w.double().requires_grad_() for w in weights]
    out = x.double()
    for i, weight in enumerate(copies):
        out = (out.relu() if i else out) @ weight.T
    loss = (out - y.double()).square().mean() * scale / 2
    return loss.item(), list(torch.autograd.grad(loss, copies))


def stepped(student, device, weights, batches, **options):
    run = {"device": device, "weights": weights, "batches": batches, **options}
    return student.run(probes.stepped, **run)


def check_loss(got, expected):
    hint = "the loss of this batch before the step, as a float"
    expect.number(got, expected, tolerance=1e-5 * abs(expected), hint=hint)


# Stays: this test checks the step itself, with numbers that are never rounded.
@pytest.mark.harm("trains worse")
def test_step_is_that_of_the_gradients(student, rng, device):
    """p ← p − lr · gradient for every weight, and the loss from before the step is returned."""
    one = torch.tensor([[2.0]])  # one row, one feature and one output
    for weights, data in [*(problem(rng) for _ in range(3)), ([one], [(one, one / 4)])]:
        got = stepped(student, device, weights, data, lr=0.25, max_norm=math.inf)
        loss, (gradient,) = gradients(weights, *data[0])
        check_loss(got["losses"][0], loss)
        want = (weights[0] - 0.25 * gradient).float()
        expect.tensor(got["parameters"][0], want, rtol=RTOL, name="the weight")
        reason = "the model is in eval mode, in or after a step, although it was in training mode"
        stayed = bool(got["modes"]) and all([*got["modes"], got["training_after"]])
        expect.that(stayed, reason)


@pytest.mark.harm("wrong number")
def test_forward_runs_in_the_dtype(student, rng, device):
    """The forward pass computes in `dtype`, which is bfloat16 by default."""
    weights, data = problem(rng)
    for options, dtype in [({}, BF16), ({"dtype": BF16}, BF16), ({"dtype": FP32}, FP32)]:
        got = stepped(student, device, weights, data, lr=0.5, **options)
        hint = "run model(x) under torch.autocast for x's device, in `dtype`"
        expect.value(got["output_dtypes"], [dtype], hint=hint)
        hint = "give the model x as it is: autocast converts it"
        expect.value(got["input_dtypes"], [FP32], name="the dtype of the model's input", hint=hint)


# Stays: lost steps are the reason for mixed precision; others see them by the way.
@pytest.mark.harm("trains worse")
def test_small_steps_are_not_lost(student, rng, device):
    """A step from 1 to 1 + 2**-12, which bfloat16 would lose, changes the weights."""
    weights, data = problem(rng)
    loss, (gradient,) = gradients(weights, *data[0])
    lr = 2.0**-12 / float(gradient.abs().max())
    got = stepped(student, device, weights, data, lr=lr, max_norm=math.inf)
    check_loss(got["losses"][0], loss)
    expected = (weights[0] - lr * gradient).float()
    hint = "keep the weights float32 throughout"
    expect.tensor(got["parameters"][0], expected, rtol=RTOL, name="the weight", hint=hint)


@pytest.mark.harm("trains worse")
def test_gradients_from_before_do_not_count(student, rng, device):
    """Values in .grad from before the step have no effect."""
    weights, data = problem(rng)
    options = {"lr": 0.5, "stale": 64.0, "max_norm": math.inf}
    got = stepped(student, device, weights, data, **options)
    _, (gradient,) = gradients(weights, *data[0])
    expected = (weights[0] - 0.5 * gradient).float()
    hint = "call zero_grad() before the backward pass"
    expect.tensor(got["parameters"][0], expected, rtol=RTOL, name="the weight", hint=hint)
    # AdamW decays a weight whose gradient is zeros, and skips one whose gradient is None.
    unused = {"weights": [*weights, integers(rng, 2, 2) + 3], "unused": True, "kind": "AdamW"}
    got = student.run(probes.stepped, device=device, **unused, batches=data, lr=0.5, stale=64.0)
    hint = "a weight that the batch does not use has no gradient: zero_grad(set_to_none=True)"
    name = "a weight that the batch does not use"
    expect.tensor(got["parameters"][-1], unused["weights"][-1], name=name, hint=hint)
    unused |= {"frozen": True, "kind": "SGD", "batches": data, "lr": 0.5}
    plain = student.run(probes.stepped, device=device, **unused)
    got = student.run(probes.stepped, device=device, **unused, stale=64.0)
    hint = "a weight with requires_grad=False may have an old gradient"
    for p, want in zip(got["parameters"], plain["parameters"], strict=True):
        expect.tensor(p, want, name="a weight", hint=hint)
    reason = "the model is in training mode, in or after a step, although it was in eval mode"
    stayed = bool(got["modes"]) and not any([*got["modes"], got["training_after"]])
    expect.that(stayed, reason)


@pytest.mark.harm("trains worse")
def test_norm_of_all_gradients_is_clipped(student, rng, device):
    """Gradients with a norm above max_norm (default 1.0) are scaled to it; shorter ones stay.

    The norm is that of all gradients as one vector.
    """
    features, hidden, outputs = 3, 5, 4
    weights = [integers(rng, hidden, features).abs() + 1, integers(rng, outputs, hidden).abs() + 1]
    x, y = integers(rng, 4, features).abs() + 1, -integers(rng, 4, outputs).abs() * 8
    small = [w / 16 for w in weights]
    _, exact = gradients(small, x, y)
    norm = math.sqrt(sum(float(g.square().sum()) for g in exact))
    long = [({"max_norm": norm / 4}, norm / 4), ({"max_norm": norm / 4, "groups": True}, norm / 4)]
    for options, wanted in [*long, ({"max_norm": norm * 4}, norm), ({}, min(norm, 1.0))]:
        got = stepped(student, device, small, [(x, y)], lr=1.0, **options)
        for before, after, gradient in zip(small, got["parameters"], exact, strict=True):
            expected = (before - gradient * wanted / norm).float()
            hint = "compute one norm of all gradients, after the backward pass and before the step"
            # bfloat16 rounds activations and gradients to 8 bits, some of them repeatedly.
            atol = 2.0**-5 * float((gradient * wanted / norm).abs().max())
            expect.tensor(after, expected, atol=atol, name="a weight", hint=hint)
    weights, data = problem(rng)
    _, (gradient,) = gradients(weights, *data[0])
    norm = float(gradient.norm())
    got = stepped(student, device, weights, data, lr=1.0, max_norm=norm / 3)
    hint = "a clipped gradient keeps float32's 24 bits"
    clipped, want = got["gradients"][0][0], (gradient / 3).float()
    expect.tensor(clipped, want, rtol=1e-5, atol=1e-7, name="a gradient", hint=hint)
    fits = [(data[0][0], data[0][0] @ weights[0].T)]
    got = stepped(student, device, weights, fits, lr=1.0)
    hint = "the norm of gradients that are all zeros is 0: do not divide by it"
    expect.tensor(got["parameters"][0], weights[0], name="a weight without error", hint=hint)


@pytest.mark.harm("crash")
def test_backward_is_outside_of_autocast(student, rng, device):
    """Autocast is on for forward pass and loss, and off in the backward pass and afterwards."""
    weights, data = problem(rng, count=2)
    got = stepped(student, device, weights, data, lr=0.5)
    hint = "call loss.backward() after the `with` block"
    expect.value(got["autocast_in_backward"], [False, False], hint=hint)
    expect.value(got["autocast_after"], False, hint="a `with` block turns autocast off at its end")


@pytest.mark.harm("rare")
def test_loss_is_not_scaled(student, rng, device):
    """bfloat16 has float32's range, so no GradScaler is used and the optimizer steps every time."""
    weights, data = problem(rng, count=2)
    got = stepped(student, device, weights, data, lr=0.5)
    expect.value(len(got["gradients"]), 2, hint="step the optimizer once per call")
    reason = "a GradScaler scales the loss, which only float16 needs"
    expect.that(not got["scaled"], reason, hint="call loss.backward() without a scaler")


@pytest.mark.harm("not refused")
def test_float16_is_refused(student, rng, device):
    """float16, which would need a GradScaler, and other dtypes raise a ValueError."""
    weights, data = problem(rng)
    run = {"device": device, "weights": weights, "batches": data, "lr": 0.5}
    with expect.right_call("the default dtype"):
        check_loss(student.run(probes.stepped, **run)["losses"][0], gradients(weights, *data[0])[0])
    for dtype in (torch.float16, torch.float64):
        with expect.raises(ValueError, when=f"dtype is {expect.dtype_name(dtype)}"):
            student.run(probes.stepped, **run, dtype=dtype)
