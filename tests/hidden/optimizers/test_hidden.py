"""optimizers: the steps of SGD, AdaGrad and RMSProp, and the bytes that an optimizer keeps.

Accepted on purpose: state under any keys, as tensors, tuples or lists, made in __init__, with the
group or at the first step; an unused step count; an empty state; commuting operations in another
order, in place or not, as long as the parameter is the same leaf with the same storage; a None
gradient treated as zeros by AdaGrad, where the result is the same.

The formula of each class has its own tests. They compare with torch.optim's class of that name on
the same gradients, for gradients and weights of many sizes, with an ε as large as the gradients
because ε = 1e-8 hides mistakes. Everything else (groups, None, state_dict, closures) is judged
against the student's own optimizer of one parameter, for each class separately, after a check that
the parameters moved. So a mistake in a formula costs only that formula, and a missing class costs
only its own share.
"""

import pytest
import torch

from kit import expect
from tests.probes import optimizers as probes

SHAPES = [(3,), (), (2, 4)]
MORE_SHAPES = [*SHAPES, (2, 1, 3), (0, 2), (4,)]
OPTIONS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "AdaGrad": {"lr": 0.1, "eps": 1e-2},
    "RMSProp": {"lr": 0.1, "alpha": 0.8, "eps": 1e-2},
}
# The gradients' scale: about ε for the optimizers that have one.
SCALE = {"SGD": 1.0, "AdaGrad": 1e-2, "RMSProp": 1e-2}
TORCH = {"SGD": torch.optim.SGD, "AdaGrad": torch.optim.Adagrad, "RMSProp": torch.optim.RMSprop}


def tolerance(steps, *, direction=10.0, largest=10.0, dtype=torch.float64):
    """How far apart two right answers may be after some steps with lr ≤ 0.1.

    The state of step k has been rounded at most 4k times relative to its size, and the values
    computed from it 8 more times. That makes 4·steps + 8 roundings of a direction of at most
    `direction`. The parameter itself, which never exceeds `largest`, is rounded 4 times per step.
    """
    return steps * torch.finfo(dtype).eps * (0.1 * direction * (4 * steps + 8) + 4 * largest)


def away_from_zero(rng, shape, dtype=torch.float64):
    """Draw numbers with absolute values between 0.5 and 1.5 and random signs."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return ((torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs).to(dtype)


def random_run(rng, kind, steps, *, shapes=SHAPES):
    """Draw parameters, and gradients for each step at the scale that shows most mistakes."""
    gradients = [[away_from_zero(rng, s) * SCALE[kind] for s in shapes] for _ in range(steps)]
    return {
        "parameters": [away_from_zero(rng, s) for s in shapes],
        "gradients": gradients,
        "options": OPTIONS[kind],
    }


def own_steps(student, kind, inputs):
    """The float64 parameters after each step, if each parameter has its own student optimizer."""
    return student.run(probes.alone, optimizer=kind, **inputs)


def check_steps(got, expected, *, kind, atol, hint=None, first=1):
    """Check every parameter after every step."""
    expect.value(len(got), len(expected), of=kind, name="the number of steps taken")
    for step, (row, expected_row) in enumerate(zip(got, expected, strict=True), start=first):
        for p, want in zip(row, expected_row, strict=True):
            expect.tensor(
                p, want, of=kind, atol=atol, name=f"a parameter after step {step}", hint=hint
            )


def check_moved(after, before, *, of):
    """Check that each of these parameters changed.

    Code that does nothing must not earn points for groups, closures or checkpoints.
    """
    for p, old in zip(after, before, strict=True):
        moved = p.shape == old.shape and bool((p != old).any())
        expect.that(moved, "a parameter does not change although it has a gradient", of=of)


def check_formula(student, rng, kind, cases, *, hint):
    """Check runs with gradients and weights of several sizes against torch's class.

    The third step has gradients of zeros, the fourth parameter starts at zeros, and the last one
    has gradients with equal entries. In every second case the tensors are views, and options change
    after each step. In one case the parameters get other values between the steps.

    Args:
        student: The student's code.
        rng: The generator of the inputs.
        kind: The name of the class.
        cases: The size of the gradients, that of the weights, and the options of the first step.
        hint: The hint of the formula.
    """
    for number, (size, weights, options) in enumerate(cases):
        run = random_run(rng, kind, 5, shapes=MORE_SHAPES)
        parameters = [p * weights for p in run["parameters"]]
        parameters[3] *= 0
        gradients = [[g * size / SCALE[kind] for g in row] for row in run["gradients"]]
        for row in gradients:
            row[5] = torch.full_like(row[5], size)
        gradients[2] = [g * 0 for g in gradients[2]]
        inputs = {"parameters": parameters, "gradients": gradients, "options": options}
        inputs["set_back"] = number == 2
        if number % 2:
            # Another test judges what a new lr does to SGD's b.
            changes = {k: v / 2 for k, v in options.items() if (kind, k) != ("SGD", "lr")}
            changes |= {"alpha": (1 + options["alpha"]) / 2} if "alpha" in options else {}
            inputs |= {"views": True, "schedule": [options, changes, options, changes, changes]}
        got = student.run(probes.trajectory, optimizer=kind, **inputs)
        expected = probes.run_steps(TORCH[kind], **inputs)
        # `tolerance` is for lr ≤ 0.1 times the weights.
        atol = weights * max(1.0, 10 * options["lr"] / weights) * tolerance(len(expected))
        check_steps(got, expected, kind=kind, atol=atol, hint=hint)


# --- the formulas


# Stays: this test checks the simplest step; all other tests of SGD without momentum also need other
# features.
@pytest.mark.core
@pytest.mark.points(7)
def test_sgd_without_momentum(student, rng):
    """Without momentum a step is p ← p − lr · g; several add up to −lr times the sum of g."""
    drawn = float(torch.empty(()).uniform_(0.01, 0.1, generator=rng))
    for size, lr, momentum in [
        (1e-60, drawn, 0.0),
        (1e-8, 1, 0),
        (1e-4, 1e-6, 0.0),
        (1.0, drawn, 0.0),
        (1e4, 0, 0.0),
    ]:
        run = random_run(rng, "SGD", 4)
        parameters = [p * size for p in run["parameters"]]
        gradients = [[g * size for g in row] for row in run["gradients"]]
        options = {"lr": lr, "momentum": momentum}
        inputs = {"parameters": parameters, "gradients": gradients, "options": options}
        got = student.run(probes.trajectory, optimizer="SGD", **inputs)
        moved = [sum(of_one) for of_one in zip(*gradients, strict=True)]
        expected = [p - lr * total for p, total in zip(parameters, moved, strict=True)]
        hint, atol = "p ← p − lr · g", size * max(1, 10 * lr) * tolerance(4)
        check_steps(got[-1:], [expected], kind="SGD", atol=atol, hint=hint, first=4)


@pytest.mark.core
@pytest.mark.points(9)
def test_sgd_with_momentum(student, rng):
    """With momentum b ← momentum · b + g, and the first b is g; then p ← p − lr · b."""
    cases = [(1e-60, 0.9, 0.1), (1e-8, 0.3, 0.1), (1.0, 0.9, 0.1), (1.0, 0.5, 0), (1e4, 1e-6, 0.1)]
    cases = [(size, size, {"lr": lr, "momentum": momentum}) for size, momentum, lr in cases]
    check_formula(student, rng, "SGD", cases, hint="b ← μ b + g, and b starts at 0")


@pytest.mark.points(2)
def test_sgd_changes_lr_at_once(student, rng):
    """b does not contain lr: each step multiplies all of b by that step's lr."""
    run = random_run(rng, "SGD", 5)
    constant = [run["parameters"], *student.run(probes.trajectory, optimizer="SGD", **run)]
    check_moved(constant[1], constant[0], of="SGD")
    rates = [0.02, 0.1, 0.05, 0.0, 0.08]
    got = student.run(
        probes.trajectory, optimizer="SGD", schedule=[{"lr": lr} for lr in rates], **run
    )
    expected, now = [], run["parameters"]
    for lr, before, after in zip(rates, constant[:-1], constant[1:], strict=True):
        now = [
            p - lr / OPTIONS["SGD"]["lr"] * (b - a)
            for p, b, a in zip(now, before, after, strict=True)
        ]
        expected.append(now)
    # `expected` adds five differences of two positions in the other run, each with its rounding
    # error.
    check_steps(
        got,
        expected,
        kind="SGD",
        atol=11 * tolerance(5),
        hint="lr multiplies b in the step and is not kept in b",
    )


def test_sgd_keeps_nothing_without_momentum(student, rng):
    """With momentum 0 the optimizer stores no number per weight."""
    run = random_run(rng, "SGD", 2, shapes=[(4,), (2, 3), (5,)])
    without = {**run, "options": {"lr": 0.1, "momentum": 0.0}}
    first, _ = student.run(probes.trajectory, optimizer="SGD", **without)
    check_moved(first, run["parameters"], of="SGD")
    got = student.run(probes.state_elements, optimizer="SGD", **without)
    groups = [{"members": [0], "momentum": 0.0}, {"members": [1]}, {"members": [2], "momentum": 0}]
    other = student.run(probes.state_elements, optimizer="SGD", groups=groups, **run)
    pairs = [*zip(got, run["parameters"], strict=True), (other[0], run["parameters"][0])]
    for elements, p in [*pairs, (other[2], run["parameters"][2])]:
        reason = "self.state[p] contains a number per weight although momentum is 0"
        expect.that(
            elements < p.numel(),
            reason,
            of="SGD",
            hint="without momentum a step needs nothing from earlier steps",
        )


@pytest.mark.core
@pytest.mark.points(14)
def test_adagrad_formula(student, rng):
    """s ← s + g², starting at 0 and with this step's g; then p ← p − lr · g / (√s + ε)."""
    cases = [
        (1e-60, 1.0, {"lr": 0.1, "eps": 1e-60}),
        (1e-8, 1e4, {"lr": 500.0, "eps": 1e-10}),
        (1e-4, 1e-8, {"lr": 2e-10, "eps": 5e-4}),
        (1e-2, 1.0, {"lr": 0.05, "eps": 1e-2}),
        (1.0, 1.0, {"lr": 1, "eps": 1}),
        (1e4, 1e-4, {"lr": 1e-5, "eps": 0.0}),
        (1e-12, 1.0, {"lr": 0.1, "eps": 0}),
        (1.0, 1.0, {"lr": 0, "eps": 1.0}),
    ]
    check_formula(student, rng, "AdaGrad", cases, hint="s ← s + g², then g / (√s + ε)")


@pytest.mark.core
@pytest.mark.points(14)
def test_rmsprop_formula(student, rng):
    """v ← α v + (1 − α) g², starting at 0 and never corrected; then p ← p − lr · g / (√v + ε)."""
    cases = [
        (1e-60, 1.0, {"lr": 0.1, "alpha": 0.8, "eps": 1e-60}),
        (1e-8, 1e4, {"lr": 500.0, "alpha": 0.9, "eps": 1e-10}),
        (1e-4, 1e-8, {"lr": 2e-10, "alpha": 0.3, "eps": 5e-4}),
        (1e-2, 1.0, {"lr": 0.05, "alpha": 0.6, "eps": 1e-2}),
        (1e4, 1e-4, {"lr": 1e-5, "alpha": 0.5, "eps": 0.0}),
        (1.0, 1.0, {"lr": 1, "alpha": 0, "eps": 1}),
        (1e-12, 1.0, {"lr": 0.1, "alpha": 0.5, "eps": 0}),
        (1.0, 1.0, {"lr": 0, "alpha": 1e-6, "eps": 1.0}),
    ]
    hint = "v ← α v + (1 − α) g², then g / (√v + ε), and nothing else"
    check_formula(student, rng, "RMSProp", cases, hint=hint)


# --- what every optimizer does, for each class separately


def check_groups(student, rng, kind, first, second, zero):
    groups = [{"members": [0], **first}, {"members": [2]}, {"members": [1], "joins": 2, **second}]
    groups += [{"members": [3], **zero}, {"members": [4], "lr": 0.0}]
    inputs = {**random_run(rng, kind, 4, shapes=[*SHAPES, (2,), (3, 2)]), "groups": groups}
    got = student.run(probes.trajectory, optimizer=kind, **inputs)
    # Steps of plus and minus lr, as RMSProp's for an α of 0, may lead back to the start.
    moved = [*got[-1][:3], got[0][3]]
    check_moved(moved, inputs["parameters"][:4], of=kind)
    hint = "in every step, read each option from each group"
    check_steps(got, own_steps(student, kind, inputs), kind=kind, atol=tolerance(4), hint=hint)
    run = random_run(rng, kind, 2)
    got = student.run(
        probes.trajectory, optimizer=kind, schedule=[{"lr": 0.0}, {"lr": 0.05}], **run
    )
    for p, before in zip(got[0], run["parameters"], strict=True):
        expect.tensor(p, before, of=kind, name="a parameter after a step whose lr is 0", hint=hint)
    check_moved(got[1], got[0], of=kind)
    if kind != "SGD":  # another test judges what a new lr does to SGD's b
        # lr only scales each step, so a step whose lr is 0 changes the state like any other.
        constant = student.run(probes.trajectory, optimizer=kind, **run)
        hint = "a step whose lr is 0 moves no parameter, but it updates the state"
        half = [p + (b - a) / 2 for p, a, b in zip(got[0], *constant, strict=True)]
        check_steps(got[1:], [half], kind=kind, atol=4 * tolerance(2), hint=hint, first=2)


# Stays: only this test has several groups with values of their own; others see part of them.
@pytest.mark.points(3)
def test_sgd_groups(student, rng):
    """SGD: in every step each group, even one added later, uses its own current options."""
    check_groups(student, rng, "SGD", {"lr": 0.03}, {"momentum": 0.3}, {"momentum": 0.0})


@pytest.mark.points(3)
def test_adagrad_groups(student, rng):
    """AdaGrad: in every step each group, even one added later, uses its own current options."""
    check_groups(student, rng, "AdaGrad", {"lr": 0.03}, {"eps": 0.1}, {"eps": 0.0})


@pytest.mark.points(3)
def test_rmsprop_groups(student, rng):
    """RMSProp: in every step each group, even one added later, uses its own current options."""
    zero = {"alpha": 0.0, "eps": 0.0}
    check_groups(student, rng, "RMSProp", {"lr": 0.03, "eps": 0.1}, {"alpha": 0.3}, zero)


def check_none(student, rng, kind):
    run = random_run(rng, kind, 4, shapes=[*SHAPES, SHAPES[0]])
    run["parameters"][3] = run["parameters"][0].clone()  # equal ones have a state each
    for step, i in [(0, 0), (2, 0), (1, 2), *((step, 1) for step in range(4))]:
        run["gradients"][step][i] = None
    got = student.run(probes.trajectory, optimizer=kind, frozen=[2], **run)
    check_moved([got[-1][0], got[0][2]], [run["parameters"][0], run["parameters"][2]], of=kind)
    hint = "where p.grad is None, and only there, continue with the next parameter"
    check_steps(got, own_steps(student, kind, run), kind=kind, atol=tolerance(4), hint=hint)
    expect.tensor(
        got[-1][1],
        run["parameters"][1],
        of=kind,
        name="a parameter that never had a gradient",
        hint=hint,
    )


# Stays: the test of closures sees a step without a gradient, too, but is about closures.
@pytest.mark.points(2)
def test_sgd_without_a_gradient(student, rng):
    """SGD: a parameter without a gradient keeps its value and its state; the others step."""
    check_none(student, rng, "SGD")


# Stays: the test of closures sees a step without a gradient, too, but is about closures.
@pytest.mark.points(2)
def test_adagrad_without_a_gradient(student, rng):
    """AdaGrad: a parameter without a gradient keeps its value and its state; the others step."""
    check_none(student, rng, "AdaGrad")


@pytest.mark.points(2)
def test_rmsprop_without_a_gradient(student, rng):
    """RMSProp: a parameter without a gradient keeps its value and its state; the others step."""
    check_none(student, rng, "RMSProp")


def check_resumed(student, rng, kind):
    groups = [{"members": [0, 1], "lr": 0.04}, {"members": [2]}]
    inputs = {**random_run(rng, kind, 5), "groups": groups}
    expected = own_steps(student, kind, inputs)
    check_moved(expected[0], inputs["parameters"], of=kind)
    rest = {**inputs, "parameters": expected[2], "gradients": inputs["gradients"][3:]}
    pairs = zip(own_steps(student, kind, rest)[0], expected[3], strict=True)
    differ = any(
        p.shape == q.shape and bool(((p - q).abs() > tolerance(5)).any()) for p, q in pairs
    )
    expect.that(differ, "a step uses nothing from earlier steps", of=kind)
    hint = "keep what later steps need in self.state[p], where state_dict finds it"
    for used in (False, True):
        got = student.run(probes.resumed, optimizer=kind, stop=3, used=used, **inputs)
        check_steps(got, expected[3:], kind=kind, atol=tolerance(5), hint=hint, first=4)


# Stays: another test sees what is missing in the state; only this one loads a state.
@pytest.mark.core
@pytest.mark.points(3)
def test_sgd_goes_on_from_a_state_dict(student, rng):
    """SGD: an optimizer that loads a state_dict continues like the original, options too."""
    check_resumed(student, rng, "SGD")


# Stays: another test sees what is missing in the state; only this one loads a state.
@pytest.mark.core
@pytest.mark.points(3)
def test_adagrad_goes_on_from_a_state_dict(student, rng):
    """AdaGrad: an optimizer that loads a state_dict continues like the original, options too."""
    check_resumed(student, rng, "AdaGrad")


# Stays: another test sees what is missing in the state; only this one loads a state.
@pytest.mark.core
@pytest.mark.points(3)
def test_rmsprop_goes_on_from_a_state_dict(student, rng):
    """RMSProp: an optimizer that loads a state_dict continues like the original, options too."""
    check_resumed(student, rng, "RMSProp")


def check_leavings(student, rng, kind, **options):
    run = random_run(rng, kind, 2, shapes=[(3,), (2, 4), (5,), (2, 3)])
    run["options"] = {**run["options"], **options}
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    for row in (run["parameters"], *run["gradients"]):
        row[:] = [x.to(dtype) for x, dtype in zip(row, dtypes, strict=True)]
    got = student.run(probes.leavings, optimizer=kind, **run)
    check_moved(got["parameters"], run["parameters"], of=kind)
    expect.that(got["returned_nothing"], "a step without a closure returns a value", of=kind)
    if options.get("momentum") != 0:
        for elements, p in zip(got["own_elements"], run["parameters"], strict=True):
            reason = "self.state[p] contains no number of p's dtype for each weight"
            expect.that(elements >= p.numel(), reason, of=kind, hint="torch.zeros_like(p)")
    hint = (
        "use an in-place operation such as p.sub_ or p.addcdiv_, not a new tensor for p or p.data"
    )
    for p, view in zip(got["parameters"], got["views"], strict=True):
        expect.tensor(
            view, p, of=kind, name="a view of a parameter, made before the steps", hint=hint
        )
    expect.that(
        got["are_leaves"],
        "a parameter is no longer a leaf that requires a gradient",
        of=kind,
        hint=hint,
    )
    expect.that(
        got["are_in_groups"], "param_groups hold other tensors than before", of=kind, hint=hint
    )
    for p, want, dtype in zip(
        got["parameters"], own_steps(student, kind, run)[-1], dtypes, strict=True
    ):
        # Two steps: |b| ≤ 1.5 + 0.9 · 1.5 < 3, g / √v ≤ 1 / √0.2 < 3, and no parameter is above 1.5
        # + 2 · 0.1 · 3 = 2.1.
        atol = tolerance(2, direction=3, largest=2.1, dtype=dtype)
        expect.tensor(
            p, want.to(dtype), of=kind, atol=atol, name=f"a parameter of {expect.dtype_name(dtype)}"
        )
    for row, before in zip(got["gradients"], run["gradients"], strict=True):
        for gradient, g in zip(row, before, strict=True):
            hint = "do not change p.grad in place, and do not use p.grad itself as a buffer"
            expect.tensor(gradient, g, of=kind, name="a gradient after a step", hint=hint)


@pytest.mark.points(2)
def test_sgd_works_in_place(student, rng):
    """SGD: parameters stay leaves with their storage and dtype; gradients do not change."""
    check_leavings(student, rng, "SGD")
    check_leavings(student, rng, "SGD", momentum=0.0)


@pytest.mark.points(2)
def test_adagrad_works_in_place(student, rng):
    """AdaGrad: parameters stay leaves with their storage and dtype; gradients do not change."""
    check_leavings(student, rng, "AdaGrad")


@pytest.mark.points(2)
def test_rmsprop_works_in_place(student, rng):
    """RMSProp: parameters stay leaves with their storage and dtype; gradients do not change."""
    check_leavings(student, rng, "RMSProp")


def check_closure(student, rng, kind):
    start = [away_from_zero(rng, (5,)), away_from_zero(rng, (2,)), away_from_zero(rng, (3,))]
    options, of = OPTIONS[kind], f"{kind}.step"
    for result in ("a tensor", "a float", "zero", "nothing", "a dict"):
        steps = 3 if result == "a tensor" else 1
        got = student.run(
            probes.with_closure,
            optimizer=kind,
            parameters=start,
            options=options,
            steps=steps,
            result=result,
        )
        check_calls(got, start, of=of, steps=steps, result=result)
        alone = {"parameters": start, "gradients": got["gradients"], "options": options}
        hint = "the step uses the gradients that the closure leaves, whatever was there before"
        expected = own_steps(student, kind, alone)
        check_steps(got["parameters"], expected, kind=kind, atol=tolerance(steps), hint=hint)


def check_calls(got, start, *, of, steps, result):
    """Check when a closure was called, and what step returned."""
    hint = "do not catch what the closure raises"
    expect.that(got["raised"], "an exception of the closure does not leave step", of=of, hint=hint)
    hint, name = "call it once per step", f"the number of calls of the closure in {steps} steps"
    expect.value(len(got["seen"]), steps, of=of, name=name, hint=hint)
    hint, name = "with torch.enable_grad(): loss = closure()", "whether gradients were enabled"
    expect.value(
        got["grad_enabled"], [True] * steps, of=of, name=f"{name} in the closure", hint=hint
    )
    name = "whether gradients are enabled after the step"
    expect.value(got["enabled_after"], [True] * steps, of=of, name=name)
    hint = "call the closure first: it computes the gradients of this step"
    rows = zip(got["seen"], [start, *got["parameters"]], strict=False)
    for p, before in ((p, q) for seen, row in rows for p, q in zip(seen, row, strict=True)):
        expect.tensor(p, before, of=of, name="a parameter that the closure saw", hint=hint)
    hint, name = "the caller clears gradients", "the old gradient that the closure saw"
    if result != "zero":
        expect.tensor(got["old"], torch.ones_like(start[0]), of=of, name=name, hint=hint)
    rows = zip(got["gradients_after"], got["gradients"], strict=True)
    for g, want in ((g, h) for after, before in rows for g, h in zip(after, before, strict=True)):
        expect.that((g is None) == (want is None), "a gradient comes or goes", of=of, hint=hint)
        if want is not None:
            expect.tensor(g, want, of=of, name="a gradient after a step", hint=hint)
    check_moved(got["parameters"][0], start, of=of)
    for returned, loss in zip(got["returned"], got["losses"], strict=True):
        hint = "return what the closure returned"
        compare = expect.tensor if result == "a tensor" else expect.value
        compare(returned, loss, of=of, name="the result of the closure from step", hint=hint)
    reason = "step returns a copy of the closure's result"
    expect.that(got["are_the_same"], reason, of=of, hint="return the result itself")


def test_sgd_closure(student, rng):
    """SGD: step first calls the closure once, with gradients on, and returns its loss."""
    check_closure(student, rng, "SGD")


def test_adagrad_closure(student, rng):
    """AdaGrad: step first calls the closure once, with gradients on, and returns its loss."""
    check_closure(student, rng, "AdaGrad")


def test_rmsprop_closure(student, rng):
    """RMSProp: step first calls the closure once, with gradients on, and returns its loss."""
    check_closure(student, rng, "RMSProp")


def check_defaults(student, rng, kind, defaults, scale):
    """Check the defaults, with gradients of a scale at which each of them matters."""
    run = random_run(rng, kind, 3)
    run["gradients"] = [[g / SCALE[kind] * scale for g in row] for row in run["gradients"]]
    expected = own_steps(student, kind, {**run, "options": defaults})
    check_moved(expected[0], run["parameters"], of=kind)
    got = student.run(probes.trajectory, optimizer=kind, **{**run, "options": {}})
    hint = "do the defaults match the signature?"
    check_steps(got, expected, kind=kind, atol=tolerance(3), hint=hint)


def test_sgd_defaults(student, rng):
    """SGD: by default lr is 1e-3 and momentum is 0."""
    check_defaults(student, rng, "SGD", {"lr": 1e-3, "momentum": 0.0}, 1.0)


def test_adagrad_defaults(student, rng):
    """AdaGrad: by default lr is 1e-2 and eps is 1e-10."""
    check_defaults(student, rng, "AdaGrad", {"lr": 1e-2, "eps": 1e-10}, 1e-10)


def test_rmsprop_defaults(student, rng):
    """RMSProp: by default lr is 1e-2, alpha is 0.99 and eps is 1e-8."""
    check_defaults(student, rng, "RMSProp", {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8}, 1e-7)


# --- optimizer_state_bytes

OF = "optimizer_state_bytes"


def sizes(rng, count, low=2, high=9):
    """Distinct sizes."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


# Stays: the test of unusual tensors catches wrong sizes, too, but is about details.
@pytest.mark.core
@pytest.mark.points(9)
def test_state_bytes_by_dtype(student, rng):
    """Each state tensor, in any group, counts as its number of elements times its element size."""
    a, b, c = sizes(rng, 3)
    eight_bit = {
        "codes": torch.zeros(a, b, dtype=torch.uint8),
        "scales": torch.zeros(c, dtype=torch.float32),
    }
    states = [
        {"m": torch.zeros(a, c, dtype=torch.bfloat16), "v": torch.zeros(a, c, dtype=torch.float64)},
        {"sum": torch.zeros(b, 2, c), "pair": torch.zeros(2)},
        eight_bit,
    ]
    expected = a * c * (2 + 8) + b * 2 * c * 4 + 2 * 4 + a * b + c * 4
    got = student.run(probes.bytes_of_states, states=states)
    expect.value(
        got["bytes"],
        expected,
        of=OF,
        name="the bytes",
        hint="elements times element_size(), for every tensor of every parameter",
    )


@pytest.mark.points(4)
def test_state_bytes_leave_out_counts(student, rng):
    """Tensors of one element, numbers, None and strings are not counted."""
    a, b = sizes(rng, 2)
    steps = {
        "step": torch.tensor(7.0),
        "count": torch.tensor(2, dtype=torch.int64),
        "scale": torch.ones(1),
        "row": torch.ones(1, 1),
    }
    others = {"step": 12, "factor": 0.5, "buffer": None, "note": "warm"}
    states = [{**steps, "m": torch.zeros(a)}, {**others, "m": torch.zeros(3, b)}]
    hint = "count only tensors, and of these only those with numel() above 1"
    got = student.run(probes.bytes_of_states, states=states)
    expect.value(got["bytes"], 4 * a + 12 * b, of=OF, name="the bytes", hint=hint)


@pytest.mark.points(2)
def test_state_bytes_of_unusual_tensors(student, rng):
    """Elements count, not their storage, of any tensor; lists do not; and the state stays as it is.

    The count is exact beyond 2**53.
    """
    (a,) = sizes(rng, 1)
    states = [{"m": torch.zeros(a, 3)}, {"m": torch.zeros(a)}]
    plain = student.run(probes.bytes_of_states, states=states)
    expect.kind(plain["bytes"], int, of=OF, name="the bytes")
    got = student.run(probes.bytes_of_states, states=states, odd=True)
    # 3×7, 5, 4, 1×3, 3×1 and no float32, 3×2 complex64, 6 bool, and 2**53 + 1 uint8. The sum is
    # odd, as no float is above 2**53.
    odd = (21 + 5 + 4 + 3 + 3) * 4 + 6 * 8 + 6 + 2**53 + 1
    hint = "elements times element_size(), for each value of a state that is a tensor itself"
    expect.value(got["bytes"], int(plain["bytes"]) + odd, of=OF, name="the bytes", hint=hint)
    reason = "optimizer.state has another entry after the call"
    expect.that(got["entries"] == len(states), reason, of=OF, hint="state[p] adds an entry for p")


# Stays: the states in the tests above are made up; students will count those of torch's optimizers.
@pytest.mark.points(4)
def test_state_bytes_of_torchs_own(student, rng):
    """torch's optimizers keep 0 bytes before step 1, then 2 or 3 numbers per trained weight."""
    a, b, c = sizes(rng, 3)
    parameters = [torch.ones(a, b), torch.ones(c), torch.ones(()), torch.ones(b, c)]
    gradients = [[torch.full_like(p, 0.1) for p in parameters[:3]] + [None]] * 2
    for name, options, numbers in [
        ("Adam", {"amsgrad": True}, 3),
        ("AdamW", {}, 2),
        ("Adamax", {}, 2),
    ]:
        inputs = {"parameters": parameters, "gradients": gradients, "options": options}
        got = student.run(probes.bytes_of_run, optimizer=name, **inputs)
        hint = "before its first step an optimizer keeps nothing: 0 bytes"
        expect.value(got["before"], 0, of=OF, name="the bytes before the first step", hint=hint)
        hint = "count everything in optimizer.state, under any name"
        expect.value(
            got["after"],
            numbers * 4 * (a * b + c),
            of=OF,
            name="the bytes after two steps",
            hint=hint,
        )
