"""adamw: the parameters after every step, and the state that an optimizer keeps.

Accepted on purpose: state under any keys, as tensors, tuples or numbers, made in __init__ or at the
first step; a step count as an int or as a float32 tensor under the key "step", as torch keeps it;
powers of the betas in place of a count; commuting operations in another order, in place or not, as
long as the parameter keeps its storage; a step without no_grad that works on p.data.

Three tests judge the formula. Each ignores what the others check: the place of the decay is judged
against the student's own steps without it, the place of ε in steps without decay, and the bias
corrections where ε has no effect. Everything else (groups, None, state_dict, closures) is judged
against the student's own optimizer of one parameter, after a check that the parameters moved.
"""

import pytest
import torch

from kit import expect
from tests import hidden
from tests.probes import optimizers as probes

SHAPES = [(), (3,), (2, 4)]
OPTIONS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.01}
# No step in float32 shows a decay so small: whoever refuses 0 loses the test that asks for 0 alone.
NO_DECAY = 1e-20


def tolerance(steps, *, lr=0.1, betas=(0.8, 0.9), largest=1.5):
    """How far apart two right answers may be after some steps in float32.

    With a step count in float32, 1 − βᵗ has a relative error of at most 1.5 eps / (1 − β). So the
    relative error of m̂ / √v̂ is below 3 eps / (1 − β), and m̂ / √v̂ itself is below 4 for the betas
    used here. A step rounds at most 16 times on the way to the quotient, and at most 4 times when
    it updates a parameter of at most `largest`.
    """
    eps = torch.finfo(torch.float32).eps
    return steps * eps * (4 * lr * (3 / (1 - max(betas)) + 16) + 4 * largest)


def random_run(rng, steps, *, shapes=SHAPES, scale=1e-2):
    """Draw parameters, and gradients per step: 0.5 to 1.5 times `scale` in absolute value."""
    first, *rows = ([hidden.away_from_zero(rng, s) for s in shapes] for _ in range(steps + 1))
    return {"parameters": first, "gradients": [[g * scale for g in row] for row in rows]}


def check_moved(after, before, *, of="AdamW"):
    """Check that each of these parameters took about a step of Adam's length, which is 0.1.

    Code that does nothing, or takes the steps of SGD, must not earn points for groups, closures or
    checkpoints.
    """
    for p, old in zip(after, before, strict=True):
        moved = p.shape == old.shape and bool(((p - old).abs() > 0.005).all())
        reason = "a parameter with a small gradient does not move by about lr"
        expect.that(moved, reason, of=of, hint="m̂ / √v̂ does not depend on the gradient's scale")


def check_against_torch(student, inputs, *, hint):
    """Check that the student's steps are those of torch.optim.AdamW in float64."""
    expected = hidden.steps_of_torch(torch.optim.AdamW, inputs)
    options = inputs["options"]
    atol = tolerance(len(expected), lr=options["lr"], betas=options["betas"], largest=3)
    got = hidden.steps_of(student, "AdamW", inputs)
    hidden.check_steps(got, expected, kind="AdamW", atol=atol, hint=hint)


# --- the formula


@pytest.mark.harm("trains worse")
def test_decays_before_the_step(student, rng):
    """A step first multiplies p by 1 − lr · weight_decay, then subtracts the step without decay."""
    run, rate = random_run(rng, 4), 1 - 0.1 * 0.5
    run["gradients"][2] = [torch.zeros_like(p) for p in run["parameters"]]  # unlike None, a step
    with_decay, without = ({**OPTIONS, "weight_decay": decay} for decay in (0.5, NO_DECAY))
    plain = hidden.steps_of(student, "AdamW", {**run, "options": without})
    expect.parts(plain, 4, of="AdamW", name="steps")
    check_moved(plain[0], run["parameters"])
    got = hidden.steps_of(student, "AdamW", {**run, "options": with_decay})
    expected, now = [], run["parameters"]
    for before, after in zip([run["parameters"], *plain[:-1]], plain, strict=True):
        now = [p * rate - (b - a) for p, b, a in zip(now, before, after, strict=True)]
        expected.append(now)
    hint = "p ← p − lr · λ · p comes first; λ does not enter m, v or the step that follows"
    hidden.check_steps(got, expected, kind="AdamW", atol=4 * tolerance(4), hint=hint)


@pytest.mark.harm("trains worse")
def test_adds_eps_to_the_root(student, rng):
    """Without a decay a step subtracts lr · m̂ / (√v̂ + ε), also where ε is
    as large as the gradients.
    """
    hint = "m̂ / (√v̂ + ε), with m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ)"
    for size in (1e-4, 0.01, 0.5):
        options = {"lr": 0.1, "betas": (0.9, 0.999), "eps": size, "weight_decay": NO_DECAY}
        inputs = {**random_run(rng, 4, shapes=[(3, 5)], scale=size), "options": options}
        check_against_torch(student, inputs, hint=hint)


# Stays: the test of ε sees wrong means, too, but here ε has no effect.
@pytest.mark.harm("trains worse")
def test_corrects_both_means(student, rng):
    """Without decay and with a negligible ε, each of twelve steps subtracts lr · m̂ / √v̂."""
    hint = "m̂ = m / (1 − β₁ᵗ) and v̂ = v / (1 − β₂ᵗ), where t is 1 in the first step"
    for betas in [(0.9, 0.95), (0.5, 0.8), (0.8, 0.6)]:
        options = {"lr": 0.1, "betas": betas, "eps": 1e-8, "weight_decay": NO_DECAY}
        inputs = {**random_run(rng, 12, shapes=[(3, 5)], scale=10.0), "options": options}
        check_against_torch(student, inputs, hint=hint)


# --- what every optimizer does


@pytest.mark.harm("trains worse")
def test_goes_on_from_a_state_dict(student, rng):
    """An optimizer that loads a state_dict continues like the original, with its m, v and t."""
    inputs = {**random_run(rng, 6), "options": OPTIONS}
    expected = hidden.own_steps(student, "AdamW", inputs)
    check_moved(expected[0], inputs["parameters"])
    hint = "keep m, v and t in self.state[p]: state_dict saves what self.state contains"
    got = student.run(probes.resumed, optimizer="AdamW", stop=3, **inputs)
    hidden.check_steps(got, expected[3:], kind="AdamW", atol=tolerance(6), hint=hint, first=4)


@pytest.mark.harm("trains worse")
def test_each_parameter_counts_its_own_steps(student, rng):
    """Without a gradient, a parameter keeps its value and step count; a parameter that is added
    later starts its count at 0.
    """
    run = random_run(rng, 6)
    # Parameters 0 and 1 share a group but take different steps. Parameter 2 joins later.
    for step, i in [(1, 0), (2, 0), (0, 1), (1, 1), (3, 1)]:
        run["gradients"][step][i] = None
    groups = [{"members": [0, 1]}, {"members": [2], "joins": 2}]
    inputs = {**run, "options": OPTIONS, "groups": groups}
    got = hidden.steps_of(student, "AdamW", inputs)
    check_moved(got[0][:1], run["parameters"][:1])
    hint = "skip a parameter whose gradient is None first of all; t belongs in self.state[p]"
    expected = hidden.own_steps(student, "AdamW", inputs)
    hidden.check_steps(got, expected, kind="AdamW", atol=tolerance(6), hint=hint)


def check_groups(student, rng, groups):
    """Check that each parameter moves as in an optimizer with the options of its group."""
    inputs = {**random_run(rng, 4), "groups": groups}
    inputs["options"] = {**OPTIONS, "weight_decay": 0.5}
    got = hidden.steps_of(student, "AdamW", inputs)
    check_moved(got[0][:1], inputs["parameters"][:1])
    hint = "a step depends on the options of its own group, and on no other group"
    expected = hidden.own_steps(student, "AdamW", inputs)
    hidden.check_steps(got, expected, kind="AdamW", atol=tolerance(4), hint=hint)


# Stays: a run that decays its norms and biases shows no sign of it.
@pytest.mark.harm("trains worse")
def test_every_group_has_its_options(student, rng):
    """Each group steps with its own options; where it sets none, the optimizer's options apply."""
    groups = [{"members": [0], "weight_decay": 0.0}, {"members": [2], "lr": 0.03}, {"members": [1]}]
    check_groups(student, rng, groups)


@pytest.mark.harm("rare")
def test_a_group_may_have_betas_and_eps(student, rng):
    """Each group steps with its own betas and eps, too."""
    groups = [{"members": [0, 1], "betas": (0.5, 0.6)}, {"members": [2], "eps": 0.1}]
    check_groups(student, rng, groups)


# Stays: a schedule that has no effect shows no sign, and its price is not that of groups.
@pytest.mark.harm("trains worse")
def test_reads_lr_in_every_step(student, rng):
    """Each step reads lr from its group, where a schedule writes it; a warm-up begins at 0."""
    # Without a decay lr only scales each step.
    run = {**random_run(rng, 4), "options": {**OPTIONS, "weight_decay": NO_DECAY}}
    hint = "read lr from the group in every step, also if it is 0"
    near = {"atol": 4 * tolerance(4), "moved": check_moved}
    hidden.check_rates(student, "AdamW", run, [0.0, 0.1, 0.05, 0.02], hint=hint, **near)


@pytest.mark.harm("crash")
def test_works_in_place(student, rng):
    """A step changes each parameter where it is, in any memory layout, and changes no gradient."""
    run = {**random_run(rng, 1), "options": OPTIONS}
    hints = (
        "p.mul_ or p.add_ keeps the storage; a new tensor for p or p.data does not",
        "use g * g and not g.mul_(g); the caller clears gradients",
    )
    near = {"atol": 2 * tolerance(2), "moved": check_moved}
    hidden.check_in_place(student, "AdamW", run, hints=hints, **near)


@pytest.mark.harm("crash")
def test_calls_the_closure(student, rng):
    """step first calls the closure once, with gradients on, and returns its loss.

    The step uses the closure's gradients.
    """
    start = random_run(rng, 1)["parameters"]
    hint = "then comes one step of each parameter, with the gradients that the closure leaves"
    near = {"atol": tolerance(1), "moved": check_moved}
    hidden.check_closure(student, "AdamW", start, OPTIONS, hint=hint, **near)


@pytest.mark.harm("rare")
def test_counts_beyond_256_in_bfloat16(student, rng):
    """t counts steps above 256, which bfloat16 cannot, also through a state_dict."""
    # A parameter in float32 takes the same steps.
    half, single = (torch.zeros(6, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    gradient = random_run(rng, 1, shapes=[(6,)])["gradients"][0][0].bfloat16()
    # While all gradients are zeros, only t changes. Then β₂ᵗ decides how long the steps are: with
    # t = 256 in place of 340 they are 0.87 times as long.
    rows = [[half, single]] * 338 + [[gradient, gradient.float()]] * 2
    options = {"lr": 1.0, "betas": (0.9, 0.9999), "eps": 1e-8, "weight_decay": NO_DECAY}
    inputs = {"parameters": [half, single], "gradients": rows, "options": options}
    last = student.run(probes.resumed, optimizer="AdamW", stop=255, **inputs)[-2:]
    expect.parts(last, 2, of="AdamW", name="steps")
    check_moved(last[0], [half, single])
    for step, (p, want) in enumerate(last, 339):
        # At most 16 roundings per step, in sums of numbers with one sign.
        rtol, name = 16 * torch.finfo(torch.bfloat16).eps, f"a parameter after step {step}"
        hint = "keep t as an int: bfloat16 counts to 256, and load_state_dict casts tensors to it"
        expect.tensor(p, want.bfloat16(), of="AdamW", rtol=rtol, name=name, hint=hint)
