"""optimizers: the steps of SGD, AdaGrad and RMSProp, and the bytes that an optimizer keeps.

Accepted on purpose: state under any keys, as tensors, tuples or lists, made in __init__, with the
group or at the first step; an unused step count; an empty state; commuting operations in another
order, in place or not, as long as the parameter keeps its storage; a None gradient treated as zeros
by AdaGrad, where the result is the same.

The formula of each class has its own tests. They compare with torch.optim's class of that name on
the same gradients, with an ε as large as the gradients because ε = 1e-8 hides mistakes. Everything
else (groups, None, state_dict, closures) is judged against the student's own optimizer of one
parameter, after a check that the parameters moved. So a mistake in a formula costs only that
formula.
"""

import pytest
import torch

from kit import expect
from tests import hidden
from tests.hidden import sizes
from tests.probes import optimizers as probes

SHAPES = [(3,), (), (2, 4)]
OPTIONS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "AdaGrad": {"lr": 0.1, "eps": 1e-2}}
OPTIONS["RMSProp"] = {"lr": 0.1, "alpha": 0.8, "eps": 1e-2}
# The gradients' scale: about ε for the optimizers that have one.
SCALE = {"SGD": 1.0, "AdaGrad": 1e-2, "RMSProp": 1e-2}
TORCH = {"SGD": torch.optim.SGD, "AdaGrad": torch.optim.Adagrad, "RMSProp": torch.optim.RMSprop}


def tolerance(steps, *, direction=10.0, largest=10.0):
    """How far apart two right answers may be after some steps with lr ≤ 0.1 in float32.

    The state of step k has been rounded at most 4k times relative to its size, and the values
    computed from it 8 more times. That makes 4·steps + 8 roundings of a direction of at most
    `direction`. The parameter itself, which never exceeds `largest`, is rounded 4 times per step.
    """
    eps = torch.finfo(torch.float32).eps
    return steps * eps * (0.1 * direction * (4 * steps + 8) + 4 * largest)


def random_run(rng, kind, steps, *, size=1.0):
    """Draw parameters, and gradients for each step at the scale that shows most mistakes."""
    scale = SCALE[kind] * size
    first, *rows = ([hidden.away_from_zero(rng, s) for s in SHAPES] for _ in range(steps + 1))
    gradients = [[g * scale for g in row] for row in rows]
    return {"parameters": first, "gradients": gradients, "options": OPTIONS[kind]}


def check_moved(after, before, *, of):
    """Check that each of these parameters changed.

    Code that does nothing must not earn points for groups, closures or checkpoints.
    """
    for p, old in zip(after, before, strict=True):
        moved = p.shape == old.shape and bool((p != old).any())
        expect.that(moved, "a parameter does not change although it has a gradient", of=of)


def check_formula(student, rng, kind, cases, *, hint):
    """Check runs with gradients of several sizes against torch's class in float64.

    The third step has gradients of zeros.

    Args:
        student: The student's code.
        rng: The generator of the inputs.
        kind: The name of the class.
        cases: The factor of the gradients, and the options.
        hint: The hint of the formula.
    """
    for size, options in cases:
        inputs = {**random_run(rng, kind, 5, size=size), "options": options}
        inputs["gradients"][2] = [g * 0 for g in inputs["gradients"][2]]
        expected = hidden.steps_of_torch(TORCH[kind], inputs)
        atol = max(1.0, size if kind == "SGD" else 1.0) * tolerance(len(expected))
        got = hidden.steps_of(student, kind, inputs)
        hidden.check_steps(got, expected, kind=kind, atol=atol, hint=hint)


# --- the formulas


@pytest.mark.harm("trains worse")
def test_sgd_formula(student, rng):
    """b ← momentum · b + g, and the first b is g; then p ← p − lr · b. Momentum may be 0."""
    cases = [(size, {"lr": 0.05, "momentum": 0.0}) for size in (1e-2, 1.0, 100.0)]
    check_formula(student, rng, "SGD", cases, hint="without momentum, p ← p − lr · g")
    cases = [(1.0, {"lr": 0.1, "momentum": momentum}) for momentum in (0.9, 0.5, 0.3)]
    check_formula(student, rng, "SGD", cases, hint="b ← μ b + g, and b starts at 0")


@pytest.mark.harm("trains worse")
def test_adagrad_formula(student, rng):
    """s ← s + g², starting at 0 and with this step's g; then p ← p − lr · g / (√s + ε)."""
    cases = [(1.0, {"lr": 0.05, "eps": 1e-2}), (100.0, {"lr": 0.1, "eps": 1e-6})]
    check_formula(student, rng, "AdaGrad", cases, hint="s ← s + g², then g / (√s + ε)")


@pytest.mark.harm("trains worse")
def test_rmsprop_formula(student, rng):
    """v ← α v + (1 − α) g², starting at 0 and never corrected; then p ← p − lr · g / (√v + ε)."""
    hint = "v ← α v + (1 − α) g², then g / (√v + ε), and nothing else"
    cases = [(1.0, {"lr": 0.05, "alpha": 0.6, "eps": 1e-2})]
    cases += [(100.0, {"lr": 0.1, "alpha": 0.9, "eps": 1e-6})]
    check_formula(student, rng, "RMSProp", cases, hint=hint)


def check_lr(student, rng, kind, *, hint):
    """Check steps with several lr, of which the first is 0."""
    run, rates = random_run(rng, kind, 5), [0.0, 0.02, 0.1, 0.05, 0.08]
    # What is expected adds five differences of two positions, each with its rounding.
    near = {"atol": 11 * tolerance(5), "moved": check_moved}
    hidden.check_rates(student, kind, run, rates, hint=hint, **near)


@pytest.mark.harm("trains worse")
def test_sgd_changes_lr_at_once(student, rng):
    """b does not contain lr: each step multiplies all of b by that step's lr."""
    check_lr(student, rng, "SGD", hint="lr multiplies b in the step and is not kept in b")


@pytest.mark.harm("crash")
def test_sgd_keeps_nothing_without_momentum(student, rng):
    """With momentum 0 the optimizer stores no number per weight."""
    run = {**random_run(rng, "SGD", 1), "options": {"lr": 0.1, "momentum": 0.0}}
    after = hidden.steps_of(student, "SGD", run)
    expect.parts(after, 1, of="SGD", name="steps")
    check_moved(after[0], run["parameters"], of="SGD")
    elements = student.run(probes.state_elements, optimizer="SGD", **run)
    reason = "self.state contains a number per weight although momentum is 0"
    hint = "without momentum a step needs nothing from earlier steps"
    weights = sum(p.numel() for p in run["parameters"])
    expect.that(elements < weights, reason, of="SGD", hint=hint)


# --- what every optimizer does


def check_groups(student, rng, kind, first, second):
    """Check options of groups, one of which joins later."""
    groups = [{"members": [0], **first}, {"members": [2]}, {"members": [1], "joins": 2, **second}]
    inputs = {**random_run(rng, kind, 4), "groups": groups}
    got = hidden.steps_of(student, kind, inputs)
    check_moved(got[-1], inputs["parameters"], of=kind)
    hint = "in every step, read each option from each group"
    expected = hidden.own_steps(student, kind, inputs)
    hidden.check_steps(got, expected, kind=kind, atol=tolerance(4), hint=hint)


@pytest.mark.harm("trains worse")
def test_sgd_groups(student, rng):
    """SGD: in every step each group, even one added later, uses its own current options."""
    check_groups(student, rng, "SGD", {"momentum": 0.0, "lr": 0.03}, {"momentum": 0.3})


@pytest.mark.harm("trains worse")
def test_adagrad_groups(student, rng):
    """AdaGrad: in every step each group, even one added later, uses its own current options."""
    check_groups(student, rng, "AdaGrad", {"lr": 0.03}, {"eps": 0.1})
    check_lr(student, rng, "AdaGrad", hint="read lr from the group in every step; it may be 0")


@pytest.mark.harm("trains worse")
def test_rmsprop_groups(student, rng):
    """RMSProp: in every step each group, even one added later, uses its own current options."""
    check_groups(student, rng, "RMSProp", {"lr": 0.03, "eps": 0.1}, {"alpha": 0.3})
    check_lr(student, rng, "RMSProp", hint="read lr from the group in every step; it may be 0")


@pytest.mark.harm("trains worse")
@pytest.mark.parametrize("kind", OPTIONS)
def test_goes_on_from_a_state_dict(student, rng, kind):
    """An optimizer that loads a state_dict continues like the original."""
    inputs = random_run(rng, kind, 5)
    expected = hidden.own_steps(student, kind, inputs)
    check_moved(expected[0], inputs["parameters"], of=kind)
    hint = "keep what later steps need in self.state[p], where state_dict finds it"
    got = student.run(probes.resumed, optimizer=kind, stop=3, **inputs)
    hidden.check_steps(got, expected[3:], kind=kind, atol=tolerance(5), hint=hint, first=4)


@pytest.mark.harm("crash")
@pytest.mark.parametrize("kind", OPTIONS)
def test_skips_parameters_without_a_gradient(student, rng, kind):
    """A parameter without a gradient keeps its value and its state; the others step."""
    run = random_run(rng, kind, 4)
    for step, i in [(0, 0), (2, 0), (1, 2), *((step, 1) for step in range(4))]:
        run["gradients"][step][i] = None
    got = hidden.steps_of(student, kind, run)
    check_moved([got[-1][0], got[0][2]], [run["parameters"][0], run["parameters"][2]], of=kind)
    hint = "where p.grad is None, continue with the next parameter"
    expected = hidden.own_steps(student, kind, run)
    hidden.check_steps(got, expected, kind=kind, atol=tolerance(4), hint=hint)
    name = "a parameter that never had a gradient"
    expect.tensor(got[-1][1], run["parameters"][1], of=kind, name=name, hint=hint)


@pytest.mark.harm("crash")
def test_works_in_place(student, rng):
    """A step changes each parameter where it is, in any memory layout, and changes no gradient."""
    for kind, options in [*OPTIONS.items(), ("SGD", {"lr": 0.1, "momentum": 0.0})]:
        run = {**random_run(rng, kind, 1), "options": options}
        hints = (
            "use an in-place operation such as p.sub_, not a new tensor for p or p.data",
            "do not change p.grad in place; the caller clears gradients",
        )
        near = {"atol": 2 * tolerance(2), "moved": check_moved}
        hidden.check_in_place(student, kind, run, hints=hints, **near)


@pytest.mark.harm("crash")
def test_calls_the_closure(student, rng):
    """step first calls the closure once, with gradients on, and returns its loss.

    The step uses the closure's gradients.
    """
    for kind, options in OPTIONS.items():
        start = [hidden.away_from_zero(rng, shape) for shape in SHAPES]
        hint = "the step uses the gradients that the closure leaves"
        near = {"atol": tolerance(1), "moved": check_moved}
        hidden.check_closure(student, kind, start, options, hint=hint, **near)


# --- optimizer_state_bytes

OF = "optimizer_state_bytes"


@pytest.mark.harm("wrong number")
def test_state_bytes_by_dtype(student, rng):
    """Each state tensor, in any group, counts as its number of elements times its element size."""
    a, b, c = sizes(rng, 3)
    states = [
        {"m": torch.zeros(a, c, dtype=torch.bfloat16), "v": torch.zeros(a, c, dtype=torch.float64)},
        {"sum": torch.zeros(b, 2, c), "pair": torch.zeros(2)},
        {"codes": torch.zeros(a, b, dtype=torch.uint8), "scales": torch.zeros(c)},
    ]
    expected = a * c * (2 + 8) + b * 2 * c * 4 + 2 * 4 + a * b + c * 4
    got = student.run(probes.bytes_of_states, states=states)
    hint = "elements times element_size(), for every tensor of every parameter"
    expect.value(got, expected, of=OF, name="the bytes", hint=hint)


@pytest.mark.harm("wrong number")
def test_state_bytes_leave_out_counts(student, rng):
    """Tensors of one element, numbers, None and strings are not counted."""
    a, b = sizes(rng, 2)
    steps = {"step": torch.tensor(7.0), "scale": torch.ones(1)}
    others = {"step": 12, "factor": 0.5, "buffer": None, "note": "warm"}
    states = [{**steps, "m": torch.zeros(a)}, {**others, "m": torch.zeros(3, b)}]
    hint = "count only tensors, and of these only those with numel() above 1"
    got = student.run(probes.bytes_of_states, states=states)
    expect.value(got, 4 * a + 12 * b, of=OF, name="the bytes", hint=hint)


# Stays: the states above are made up; these are those that students will count.
@pytest.mark.harm("wrong number")
def test_state_bytes_of_torchs_own(student, rng):
    """torch's optimizers keep 0 bytes before step 1, then 2 or 3 numbers per trained weight."""
    a, b, c = sizes(rng, 3)
    parameters = [torch.ones(a, b), torch.ones(c), torch.ones(b, c)]
    gradients = [[torch.full_like(p, 0.1) for p in parameters[:2]] + [None]] * 2
    for name, options, numbers in [("Adam", {"amsgrad": True}, 3), ("Adamax", {}, 2)]:
        inputs = {"parameters": parameters, "gradients": gradients, "options": options}
        got = student.run(probes.bytes_of_run, optimizer=name, **inputs)
        hint = "before its first step an optimizer keeps nothing: 0 bytes"
        expect.value(got["before"], 0, of=OF, name="the bytes before the first step", hint=hint)
        hint, expected = "count everything in optimizer.state", numbers * 4 * (a * b + c)
        expect.value(got["after"], expected, of=OF, name="the bytes after two steps", hint=hint)
