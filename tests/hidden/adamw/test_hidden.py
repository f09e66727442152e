"""adamw: the parameters after every step, and the state that an optimizer keeps.

Accepted on purpose: state under any keys, as tensors, tuples or numbers, made in __init__ or at the
first step; a step count as an int or as a float32 tensor under the key "step", as torch keeps it;
commuting operations in another order, in place or not, as long as the parameter is the same leaf
with the same storage; a step without no_grad that works on p.data, and needs no enable_grad.

Four tests judge the formula. Each of the first three ignores what the others check: the place of
the decay is judged against the student's own steps without it, the place of ε in steps without
decay, and the bias corrections where ε has no effect. So one mistake fails one of these tests plus
the test of everything together, and two mistakes fail two. Everything else (groups, None,
state_dict, closures) is judged against the student's own optimizer of one parameter, after a check
that the parameters moved.
"""

import math

import pytest
import torch

from kit import expect
from tests.probes import optimizers as probes

SHAPES = [(), (3,), (2, 4)]
SIZES = (1e-8, 1e-4, 1.0, 1e4)
OPTIONS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-2, "weight_decay": 0.5}
TINY = 1e-30


def tolerance(steps, *, lr, betas, largest=0.0, dtype=torch.float64):
    """How far apart two right answers may be after some steps.

    With a step count in float32, 1 − βᵗ has a relative error of at most 1.5 eps32 / (1 − β). So the
    relative error of m̂ / √v̂ is below 3 eps32 / (1 − β), and m̂ / √v̂ itself is below 4 for the
    betas used here. A step that computes in the parameters' dtype rounds at most 16 times on the
    way to the quotient, and at most 4 times when it updates a parameter of at most `largest`.
    """
    eps32, eps = torch.finfo(torch.float32).eps, torch.finfo(dtype).eps
    # Without betas the correction is exactly 1.
    count = 3 * eps32 / (1 - max(betas)) if max(betas) else 0.0
    return steps * (4 * lr * (count + 16 * eps) + 4 * eps * largest)


def random_run(rng, steps, *, shapes=SHAPES, scale=1e-2, dtype=torch.float64):
    """Draw parameters, and gradients per step: 0.5 to 1.5 times `scale` in absolute value."""

    def away_from_zero(shape):
        signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
        return (torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs

    parameters = [away_from_zero(shape).to(dtype) for shape in shapes]
    gradients = [
        [(away_from_zero(shape) * scale).to(dtype) for shape in shapes] for _ in range(steps)
    ]
    return {"parameters": parameters, "gradients": gradients}


def own_steps(student, inputs):
    """The float64 parameters after each step, if each parameter has its own student optimizer."""
    return student.run(probes.alone, optimizer="AdamW", **inputs)


def check_steps(got, expected, *, atol=0.0, rtol=0.0, hint=None, first=1):
    """Check every parameter after every step."""
    expect.value(len(got), len(expected), of="AdamW", name="the number of steps taken")
    for step, (row, expected_row) in enumerate(zip(got, expected, strict=True), start=first):
        for p, want in zip(row, expected_row, strict=True):
            name = f"a parameter after step {step}"
            expect.tensor(p, want, of="AdamW", atol=atol, rtol=rtol, name=name, hint=hint)


def check_moved(after, before, *, of="AdamW"):
    """Check that each of these parameters changed.

    Code that does nothing must not earn points for groups, closures or checkpoints.
    """
    for p, old in zip(after, before, strict=True):
        moved = p.shape == old.shape and bool((p != old).any())
        expect.that(moved, "a parameter does not change although it has a gradient", of=of)


def check_length(student, rng):
    """Check that a first step is about lr long even for a tiny gradient.

    The tests that call this judge only steps of Adam's kind.
    """
    run = random_run(rng, 1, shapes=[(3,)], scale=1e-4)
    options = {**OPTIONS, "eps": TINY, "weight_decay": TINY}
    ((after,),) = student.run(probes.trajectory, optimizer="AdamW", options=options, **run)
    check_moved([after], run["parameters"])
    lengths = (after - run["parameters"][0]).abs()
    reason = "the first step is not about lr long where the gradient is small"
    expect.that(
        bool(((lengths > 0.01) & (lengths < 1)).all()),
        reason,
        of="AdamW",
        hint="m̂ / √v̂ does not depend on the gradient's scale",
    )


def check_against_torch(student, inputs, *, hint, size=1.0):
    """Check that the student's steps are those of torch.optim.AdamW for parameters of this size."""
    got = student.run(probes.trajectory, optimizer="AdamW", **inputs)
    expected = probes.run_steps(torch.optim.AdamW, **inputs)
    options = inputs["options"]
    betas = [b for now in (options, *inputs.get("schedule", ())) for b in now.get("betas", ())]
    atol = tolerance(len(expected), lr=options["lr"], betas=betas, largest=2 * size)
    check_steps(got, expected, atol=atol, hint=hint)


def check_memory(student, expected, inputs, *, atol):
    """Check that the step after the third differs from a first step from the same parameters."""
    rest = {**inputs, "parameters": expected[2], "gradients": inputs["gradients"][3:]}
    pairs = zip(own_steps(student, rest)[0], expected[3], strict=True)
    differ = any(p.shape == q.shape and bool(((p - q).abs() > atol).any()) for p, q in pairs)
    expect.that(differ, "a step uses nothing from earlier steps", of="AdamW")


# --- the formula


# Stays: the test of all options catches this too; only this one shows that the decay is wrong.
@pytest.mark.core
@pytest.mark.points(13)
def test_decays_before_the_step(student, rng):
    """A step first multiplies p by 1 − lr · weight_decay, then subtracts the step without decay."""
    check_length(student, rng)
    # Vectors and scalars decay, too.
    for size, shape in zip(SIZES, [(3, 5), (3,), (), (2, 1, 3)], strict=True):
        run = random_run(rng, 4, shapes=[shape], scale=size)
        run["parameters"] = [p * size for p in run["parameters"]]
        # With ε = 1 a gradient of 1e-8 moves p by 1e-9. Relative to p, that is about as small as
        # the decay.
        options = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1.0}
        without = {**run, "options": {**options, "weight_decay": TINY}}
        plain = student.run(probes.trajectory, optimizer="AdamW", **without)
        check_moved(plain[0], run["parameters"])
        got = student.run(
            probes.trajectory,
            optimizer="AdamW",
            **{**run, "options": {**options, "weight_decay": 0.5}},
        )
        expected, p = [], run["parameters"][0]
        for (before,), (after,) in zip([run["parameters"], *plain], plain, strict=False):
            p = p * (1 - 0.1 * 0.5) - (before - after)
            expected.append([p])
        hint = "p ← p − lr · λ · p comes first; λ does not enter m, v or the step that follows"
        check_steps(got, expected, atol=1e-9 * size + 1e-13, hint=hint)


# Stays: the test of all options catches this too; only this one shows that ε is wrong.
@pytest.mark.core
@pytest.mark.points(13)
def test_adds_eps_to_the_root(student, rng):
    """Without a decay a step subtracts lr · m̂ / (√v̂ + ε), also where ε is
    as large as the gradients.
    """
    for size in SIZES:
        options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": size, "weight_decay": TINY}
        inputs = {**random_run(rng, 4, shapes=[(3, 5)], scale=size), "options": options}
        check_against_torch(
            student, inputs, hint="m̂ / (√v̂ + ε), with m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ)"
        )


# Stays: the test of all options catches this too, but in this test neither ε nor the decay has any
# effect.
@pytest.mark.core
@pytest.mark.points(4)
def test_corrects_both_means(student, rng):
    """Without decay and with a negligible ε, each of twelve steps subtracts lr · m̂ / √v̂."""
    for size, betas in [(1e-2, (0.9, 0.95)), (1.0, (0.5, 0.8)), (1e4, (0.8, 0.6))]:
        options = {"lr": 0.1, "betas": betas, "eps": TINY, "weight_decay": TINY}
        inputs = {**random_run(rng, 12, shapes=[(3, 5)], scale=size), "options": options}
        hint = "m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ), where t is 1 in the first step"
        check_against_torch(student, inputs, hint=hint)


# Stays: a formula whose parts are right can still be wrong as a whole.
@pytest.mark.core
@pytest.mark.points(4)
def test_all_options_together(student, rng):
    """Steps agree with torch.optim.AdamW for any lr, betas, eps and weight_decay,
    and for weights and gradients of any size and layout.
    """
    hint = "does each option enter where the formula has it?"
    for number, (size, scale, betas, shape) in enumerate(
        [
            (1.0, 0.1, (0.9, 0.95), (3, 5)),
            (1e4, 0.1, (0.5, 0.8), (2, 1, 3)),
            (1e-4, 0.1, (0.9, 0.999), ()),
            (1e-8, 1e-60, (0.8, 0.6), (3, 4)),
            (1.0, 0.1, (0.9, 0.95), (3,)),
            (1.0, 0.1, (0.0, 0.0), (4,)),
            (1.0, 0.1, (0.5, 0.0), (0, 2)),
        ]
    ):
        lr, eps, tenth = (
            10 ** float(torch.empty(()).uniform_(-2, -1, generator=rng)) for _ in range(3)
        )
        run = random_run(rng, 6, shapes=[shape], scale=scale)
        run["parameters"] = [p * size for p in run["parameters"]]
        run["gradients"][2] = [g * 0 for g in run["gradients"][2]]
        # lr · weight_decay, the fraction that decays in a step, is at most 0.1 for weights
        # of every size.
        decay = 10 * tenth / max(size, 1.0)
        options = {"lr": lr * size, "betas": betas, "eps": eps * scale * 10, "weight_decay": decay}
        # A step starts where the parameter is now, even if something else has changed it.
        inputs = {**run, "options": options, "set_back": number == 4}
        if number % 2:
            other = {"lr": 0.3 * lr * size, "betas": (0.3, 0.7), "weight_decay": 0.0}
            inputs |= {"views": True, "schedule": [options] * 3 + [{**other, "eps": eps * scale}]}
        if shape == (4,):  # gradients with equal entries, as expanded tensors
            run["gradients"][:] = [[torch.full_like(g, scale)] for (g,) in run["gradients"]]
        check_against_torch(student, inputs, size=size, hint=hint)


# --- what every optimizer does


# Stays: the next test catches a state that is lost, too, but is about the count alone.
@pytest.mark.core
@pytest.mark.points(4)
def test_goes_on_from_a_state_dict(student, rng):
    """An optimizer that loads a state_dict continues like the original: m, v, t and options."""
    groups = [{"members": [0, 1], "lr": 0.04}, {"members": [2]}]
    inputs = {**random_run(rng, 6), "options": OPTIONS, "groups": groups}
    expected = own_steps(student, inputs)
    check_moved(expected[0], inputs["parameters"])
    atol = tolerance(6, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    check_memory(student, expected, inputs, atol=atol)
    hint = "keep m, v and t in self.state[p]: state_dict saves what self.state contains"
    elements = student.run(
        probes.state_elements, optimizer="AdamW", options=OPTIONS, **random_run(rng, 2)
    )
    enough = all(kept >= 2 * math.prod(shape) for kept, shape in zip(elements, SHAPES, strict=True))
    expect.that(
        enough, "self.state[p] has fewer than two numbers per weight", of="AdamW", hint=hint
    )
    for used in (False, True):
        got = student.run(probes.resumed, optimizer="AdamW", stop=3, used=used, **inputs)
        check_steps(got, expected[3:], atol=atol, hint=hint, first=4)


@pytest.mark.points(2)
def test_goes_on_from_a_state_dict_in_half_precision(student, rng):
    """t counts steps far above 256, which bfloat16 cannot, also through a state_dict."""
    check_length(student, rng)
    run = random_run(rng, 1, shapes=[(6,)], dtype=torch.bfloat16)
    # A parameter in float32, which counts beyond 340, takes the same steps.
    half, single = (torch.zeros(6, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    ((gradient,),) = run["gradients"]
    # While all gradients are zeros, only t changes. Then β₂ᵗ decides how long the steps are: with
    # t = 256 in place of 340 they are 0.87 times as long.
    run["parameters"] = [half, single]
    run["gradients"] = [[gradient, gradient.float()]] * 2
    run["options"] = {"lr": 1.0, "betas": (0.9, 0.9999), "eps": 1e-8, "weight_decay": TINY}
    last = student.run(probes.resumed_late, optimizer="AdamW", zeros=338, stop=255, **run)
    expect.parts(last, 2, of="AdamW", name="steps")
    check_moved(last[0], run["parameters"])
    got, expected = [[p] for p, _ in last], [[p.bfloat16()] for _, p in last]
    # At most 16 roundings per step, in sums of numbers with one sign.
    rtol = 16 * torch.finfo(torch.bfloat16).eps
    hint = (
        "is t a tensor of p's dtype? bfloat16 counts to 256, and load_state_dict gives a tensor "
        "p's dtype, unless its key is step"
    )
    check_steps(got, expected, rtol=rtol, hint=hint, first=339)


@pytest.mark.points(4)
def test_each_parameter_counts_its_own_steps(student, rng):
    """Without a gradient, a parameter keeps its value and step count; a parameter that is added
    later starts its count at 0.
    """
    run = random_run(rng, 6, shapes=[*SHAPES, SHAPES[1]])
    # Parameters 0 and 1 share a group but take different steps, so they need separate counts.
    # Parameter 2 joins later. Parameter 3 equals parameter 1, but has a state of its own.
    run["parameters"][3] = run["parameters"][1].clone()
    for step, i in [(1, 0), (2, 0), (0, 1), (1, 1), (3, 1)]:
        run["gradients"][step][i] = None
    groups = [{"members": [0, 1, 3]}, {"members": [2], "joins": 2}]
    inputs = {**run, "options": OPTIONS, "groups": groups}
    got = student.run(probes.trajectory, optimizer="AdamW", **inputs)
    check_moved(got[0][:1], run["parameters"][:1])
    check_moved(got[-1], run["parameters"])
    check_length(student, rng)
    hint = (
        "skip a parameter whose gradient is None before anything else; t belongs in self.state[p]"
    )
    check_steps(
        got,
        own_steps(student, inputs),
        atol=tolerance(6, lr=0.1, betas=(0.8, 0.9), largest=1.5),
        hint=hint,
    )


@pytest.mark.points(3)
def test_works_in_place(student, rng):
    """A step keeps each parameter a leaf with its storage and dtype, and changes no gradient."""
    run = random_run(rng, 2, shapes=[(3,), (2, 4), (5,), (2, 3)], scale=1.0)
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    for row in (run["parameters"], *run["gradients"]):
        row[:] = [x.to(dtype) for x, dtype in zip(row, dtypes, strict=True)]
    got = student.run(probes.leavings, optimizer="AdamW", options=OPTIONS, **run)
    check_moved(got["parameters"], run["parameters"])
    expect.that(got["returned_nothing"], "a step without a closure returns a value", of="AdamW")
    for elements, p in zip(got["own_elements"], run["parameters"], strict=True):
        reason = "self.state[p] contains fewer than two numbers of p's dtype for each weight"
        expect.that(elements >= 2 * p.numel(), reason, of="AdamW", hint="torch.zeros_like(p)")
    hint = (
        "an in-place operation such as p.mul_ or p.add_ keeps the storage; a new tensor for "
        "p or p.data does not"
    )
    for p, view in zip(got["parameters"], got["views"], strict=True):
        expect.tensor(
            view, p, of="AdamW", name="a view of a parameter, made before the steps", hint=hint
        )
    expect.that(
        got["are_leaves"],
        "a parameter is no longer a leaf that requires a gradient",
        of="AdamW",
        hint=hint,
    )
    expect.that(
        got["are_in_groups"], "param_groups hold other tensors than before", of="AdamW", hint=hint
    )
    expected = own_steps(student, {**run, "options": OPTIONS})[-1]
    for p, want, dtype in zip(got["parameters"], expected, dtypes, strict=True):
        atol = tolerance(2, lr=0.1, betas=(0.8, 0.9), largest=1.5, dtype=dtype)
        expect.tensor(
            p,
            want.to(dtype),
            of="AdamW",
            atol=atol,
            name=f"a parameter of {expect.dtype_name(dtype)}",
        )
    for row, before in zip(got["gradients"], run["gradients"], strict=True):
        for gradient, g in zip(row, before, strict=True):
            hint = "use g * g and not g.mul_(g); the caller clears gradients"
            expect.tensor(gradient, g, of="AdamW", name="a gradient after a step", hint=hint)


@pytest.mark.points(2)
def test_every_group_has_its_options(student, rng):
    """Each group steps with its own options; where it sets none, the optimizer's options apply."""
    groups = [
        {"members": [0], "weight_decay": 0.1},
        {"members": [2], "lr": 0.03, "eps": 0.1},
        {"members": [1], "betas": (0.5, 0.6)},
        {"members": [3], "weight_decay": 0.0, "eps": 0.0, "betas": (0.0, 0.0)},
        {"members": [4], "lr": 0.0},
    ]
    run = random_run(rng, 4, shapes=[*SHAPES, (2,), (3, 2)])
    inputs = {**run, "options": OPTIONS, "groups": groups}
    got = student.run(probes.trajectory, optimizer="AdamW", frozen=[2], **inputs)
    check_moved(got[0][:4], inputs["parameters"][:4])
    atol = tolerance(4, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    check_steps(
        got,
        own_steps(student, inputs),
        atol=atol,
        hint="each group is a dict that contains its options and parameters, frozen ones, too",
    )


@pytest.mark.points(2)
def test_options_change_between_steps(student, rng):
    """Each step reads lr from its group, where a learning-rate schedule writes it."""
    run = random_run(rng, 4)
    schedule = [{"lr": 0.1}, {"lr": 0.0}, {"lr": 0.05}, {"lr": 0.0}]
    options = {**OPTIONS, "weight_decay": TINY}
    got = student.run(
        probes.trajectory, optimizer="AdamW", options=options, schedule=schedule, **run
    )
    check_moved(got[0], run["parameters"])
    for step in (1, 3):
        for p, want in zip(got[step], got[step - 1], strict=True):
            hint = "read lr from the group in every step"
            expect.tensor(
                p, want, of="AdamW", name="a parameter after a step whose lr is 0", hint=hint
            )
    check_moved(got[2], got[1])
    # Without a decay lr only scales each step, so m, v and t change although lr is 0.
    constant = student.run(probes.trajectory, optimizer="AdamW", options=options, **run)
    atol = 4 * tolerance(4, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    hint = "a step whose lr is 0 moves no parameter, but it updates m, v and t"
    for p, before, then, after in zip(got[2], got[1], constant[1], constant[2], strict=True):
        name = "a parameter after a step whose lr is 0, and one more step"
        expect.tensor(p, before + (after - then) / 2, of="AdamW", atol=atol, name=name, hint=hint)


@pytest.mark.points(2)
def test_calls_the_closure(student, rng):
    """step first calls the closure once, with gradients on, and returns its loss.

    The step uses the closure's gradients.
    """
    start, of = random_run(rng, 1, shapes=[(5,), (2,), (3,)])["parameters"], "AdamW.step"
    for result in ("a tensor", "a float", "zero", "nothing", "a dict"):
        steps = 3 if result == "a tensor" else 1
        got = student.run(
            probes.with_closure,
            optimizer="AdamW",
            parameters=start,
            options=OPTIONS,
            steps=steps,
            result=result,
        )
        check_calls(got, start, of=of, steps=steps, result=result)
        alone = {"parameters": start, "gradients": got["gradients"], "options": OPTIONS}
        atol = tolerance(3, lr=0.1, betas=(0.8, 0.9), largest=1.5)
        hint = "the step uses the gradients that the closure leaves, whatever was there before"
        check_steps(got["parameters"], own_steps(student, alone), atol=atol, hint=hint)


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


def test_default_options(student, rng):
    """By default lr is 1e-3, betas are (0.9, 0.999), eps is 1e-8 and weight_decay is 0.01."""
    run = random_run(rng, 5, shapes=[(4, 3), (6,)])
    # Large enough for the decay to show: a step decays a parameter by 1e-5 of its value.
    run["parameters"][0] *= 10
    # The second gradients are about as small as eps.
    run["gradients"] = [[g, h * 1e-6] for g, h in run["gradients"]]
    named = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    expected = own_steps(student, {**run, "options": named})
    check_moved(expected[0], run["parameters"])
    got = student.run(probes.trajectory, optimizer="AdamW", options={}, **run)
    atol = tolerance(5, lr=1e-3, betas=(0.9, 0.999), largest=15)
    check_steps(got, expected, atol=atol, hint="do the defaults match the signature?")


def test_takes_options_of_zero(student, rng):
    """lr, each β, eps and weight_decay may be 0, and each but the βs may be an int, also a large
    one.
    """
    run = random_run(rng, 3, scale=1.0)
    hint = "0 is a value like any other"
    for options in [{"betas": (0.0, 0.9)}, {"betas": (0.9, 0.0)}, {"eps": 0}, {"weight_decay": 0}]:
        check_against_torch(student, {**run, "options": {**OPTIONS, **options}}, hint=hint)
    # Where lr · λ is above 1, a decay changes p's sign.
    options = {**OPTIONS, "weight_decay": 30}
    check_against_torch(student, {**run, "options": options}, size=10.0, hint=hint)
    # Without a memory of earlier gradients a step is exact.
    for lr, eps, decay, scale in [(1, 1, 1, 1.0), (0, 1.0, 1.0, 1.0), (1, 0, 0, 1e-6)]:
        options = {"lr": lr, "betas": (0.0, 0.0), "eps": eps, "weight_decay": decay}
        inputs = {"parameters": [p * lr for p in run["parameters"]], "options": options}
        inputs["gradients"] = [[g * scale for g in row] for row in run["gradients"]]
        check_against_torch(student, inputs, size=2.0, hint=hint)
