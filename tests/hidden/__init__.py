"""Hidden tests: a folder per problem, with test_hidden.py and, for a GPU, test_cuda.py.

They run in the grader's process and reach the student's code only through the `student` fixture.
The first paragraph of a test's docstring is the rule that the report shows if the test fails.

Here is what several of them draw or check.
"""

import copy
from functools import partial

import torch

from kit import expect
from kit.student import call_and_keep_inputs
from tests.probes import optimizers as probes

TOLERANCE = 1e-6  # of a number, relative
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn]
CHECKS = {"generators_left", "kind", "number", "parts", "raises", "tensor", "that", "value"}


class ExpectOf:
    """`kit.expect`, whose checks are of one function unless a call names another one."""

    def __init__(self, of):
        self._of = of

    def __getattr__(self, name):
        found = getattr(expect, name)
        return partial(found, of=self._of) if name in CHECKS else found


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def integers(rng, low, high, count=1):
    return torch.randint(low, high, (count,), generator=rng).tolist()


def sizes(rng, count, low=2, high=9):
    """Distinct sizes, so that no two dimensions can be confused."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def uniform(rng, low, high):
    return float(torch.empty((), dtype=torch.float64).uniform_(low, high, generator=rng))


def device(rng, *, one_peak=False):
    """The fields of a made-up device, with one peak for all dtypes or a different one for each."""
    peak, times = uniform(rng, 1e13, 9e14), [1] * len(DTYPES)
    if not one_peak:
        times = (1 + torch.randperm(len(DTYPES), generator=rng)).tolist()
    return {
        "name": "made up",
        "peak_flops": {dtype: peak * n for dtype, n in zip(DTYPES, times, strict=True)},
        "memory_bandwidth": uniform(rng, 1e11, 9e12),
        "memory_bytes": integer(rng, 10**9, 10**11),
    }


def check_number(got, expected, *, of, hint=None):
    """Check that a number agrees with an exact one up to rounding."""
    want = float(expected)
    expect.number(got, want, of=of, tolerance=TOLERANCE * abs(want), hint=hint)


def answer_that_keeps(student, module, of, args, *, hint=None):
    """Call a function, check that it changes none of its inputs, and return its answer."""
    given = {"module": module, "function": of, "args": copy.deepcopy(args)}
    got = student.run(call_and_keep_inputs, **given)
    for after, before in zip(got["inputs"], args, strict=True):
        check = expect.tensor if isinstance(before, torch.Tensor) else expect.value
        check(after, before, of=of, name="an input after the call", hint=hint)
    return got


# --- optimizers: `kind` names the student's class, and `moved` checks that parameters moved


def away_from_zero(rng, shape):
    """Draw numbers with absolute values between 0.5 and 1.5 and random signs."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return (torch.rand(shape, generator=rng) + 0.5) * signs


def steps_of(student, kind, inputs):
    """The parameters after each step of the student's optimizer."""
    return student.run(probes.trajectory, optimizer=kind, **inputs)


def own_steps(student, kind, inputs):
    """The parameters after each step, if each parameter has its own student optimizer."""
    return student.run(probes.alone, optimizer=kind, **inputs)


def steps_of_torch(optimizer, inputs):
    """The parameters after each step of a class of torch in float64, rounded to float32."""
    wide = [p.double() for p in inputs["parameters"]]
    gradients = [[g.double() for g in row] for row in inputs["gradients"]]
    found = probes.run_steps(optimizer, **{**inputs, "parameters": wide, "gradients": gradients})
    return [[p.float() for p in row] for row in found]


def check_steps(got, expected, *, kind, atol, hint=None, first=1):
    expect.value(len(got), len(expected), of=kind, name="the number of steps taken")
    for step, (row, expected_row) in enumerate(zip(got, expected, strict=True), start=first):
        for p, want in zip(row, expected_row, strict=True):
            name = f"a parameter after step {step}"
            expect.tensor(p, want, of=kind, atol=atol, name=name, hint=hint)


def check_rates(student, kind, run, rates, *, moved, atol, hint):
    """Check steps with another lr each, which only scales a step; the lr of `run` is 0.1."""
    constant = steps_of(student, kind, run)
    expect.parts(constant, len(rates), of=kind, name="steps")
    moved(constant[0], run["parameters"], of=kind)
    got = steps_of(student, kind, {**run, "rates": rates})
    expected, now = [], run["parameters"]
    for lr, before, after in zip(rates, [now, *constant[:-1]], constant, strict=True):
        now = [p + lr / 0.1 * (a - b) for p, b, a in zip(now, before, after, strict=True)]
        expected.append(now)
    check_steps(got, expected, kind=kind, atol=atol, hint=hint)


def check_in_place(student, kind, run, *, moved, atol, hints):
    """Check that a step changes parameters where they are, and no gradient, with a hint each."""
    run["gradients"] *= 2  # equal, so that no two steps cancel
    expected = own_steps(student, kind, run)[-1]
    moved(expected, run["parameters"], of=kind)
    got = student.run(probes.leavings, optimizer=kind, **run)
    for name, values in [
        ("a parameter", got["parameters"]),
        ("a view of a parameter, made before the step", got["views"]),
    ]:
        for p, want in zip(values, expected, strict=True):
            expect.tensor(p, want, of=kind, atol=atol, name=name, hint=hints[0])
    for gradient, g in zip(got["gradients"], run["gradients"][-1], strict=True):
        expect.tensor(gradient, g, of=kind, name="a gradient after a step", hint=hints[1])


def check_closure(student, kind, start, options, *, moved, atol, hint):
    """Check what the closure sees, what step returns, and the step with the closure's gradients."""
    of, inputs = f"{kind}.step", {"parameters": start, "options": options}
    got = student.run(probes.with_closure, optimizer=kind, **inputs)
    name = "the number of calls of the closure"
    expect.value(len(got["seen"]), 1, of=of, name=name, hint="call it once per step")
    enabled, graph = got["grad_enabled"][0], "with torch.enable_grad(): loss = closure()"
    expect.that(enabled, "the closure runs without gradients", of=of, hint=graph)
    for p, before in zip(got["seen"][0], start, strict=True):
        first = "call the closure first: it computes the gradients of this step"
        expect.tensor(p, before, of=of, name="a parameter that the closure saw", hint=first)
    same = "return what the closure returned"
    expect.tensor(got["returned"], got["loss"], of=of, name="the loss from step", hint=same)
    moved(got["parameters"], start, of=of)
    expected = own_steps(student, kind, {**inputs, "gradients": [[2 * p for p in start]]})
    check_steps([got["parameters"]], expected, kind=kind, atol=atol, hint=hint)
