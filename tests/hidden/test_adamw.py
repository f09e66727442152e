"""adamw: the parameters after every step, and what an optimizer keeps.

Accepted on purpose: state under any keys, as tensors, tuples or numbers, made in __init__ or at the first step; a count
of steps as an int or a float32 tensor, as torch keeps one; moments of a dtype wider than the parameter's; operations
that commute in another order, in place or not, as long as the parameter is the same leaf with the same storage; a step
without no_grad that works on p.data; torch's own words for a wrong call, which say "learning rate" for lr and "beta"
for betas. Closures are called where gradients are on, so a step that leaves them on needs no enable_grad.

The formula is judged by four tests, against torch.optim.AdamW on the same gradients and against closed forms: with one
gradient g at every step m̂ = g and v̂ = g². Steps of lr 0.1 with weight_decay 0.5, eps 0.01 and gradients about as small
tell apart what eps 1e-8 does not. Everything else (groups, None, state_dict, closures, dtypes) is judged against the
student's own optimizer of one parameter, so that one mistake in the formula costs the formula's points and no others.
"""

import pytest
import torch

from tests import expect
from tests.probes import optimizers as probes

SHAPES = [(), (3,), (2, 4)]
OPTIONS = {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-2, "weight_decay": 0.5}
EPS_HINT = "ε is added to √v̂, outside the root and after the correction; the decay comes first, as p·(1 − lr·λ)"


def tolerance(steps, *, lr, betas, largest=0.0, dtype=torch.float64):
    """How far apart two right answers may be after some steps.

    A count of steps in float32 makes 1 − βᵗ wrong by at most 1.5 eps32 / (1 − β) of itself, so m̂ / √v̂ by less than
    3 eps32 / (1 − β), and that quotient is below 4 for the betas used here. In the parameters' dtype a step rounds the
    quotient and what makes it up at most 16 times, and the parameter, as large as `largest`, 4 times.
    """
    eps32, eps = torch.finfo(torch.float32).eps, torch.finfo(dtype).eps
    return steps * (4 * lr * (3 * eps32 / (1 - max(betas)) + 16 * eps) + 4 * eps * largest)


def random_run(rng, steps, *, shapes=SHAPES, scale=1e-2, dtype=torch.float64):
    """Parameters between 0.5 and 1.5 or the negatives of that, and gradients of about `scale` for each step."""
    signs = [torch.randint(0, 2, shape, generator=rng) * 2 - 1 for shape in shapes]
    parameters = [((torch.rand(s.shape, generator=rng) + 0.5) * s).to(dtype) for s in signs]
    gradients = [[(torch.randn(s, generator=rng) * scale).to(dtype) for s in shapes] for _ in range(steps)]
    return {"parameters": parameters, "gradients": gradients}


def expected_steps(inputs):
    """The parameters after each step of torch.optim.AdamW, in float64."""
    wide = {
        **inputs,
        "parameters": [p.double() for p in inputs["parameters"]],
        "gradients": [[None if g is None else g.double() for g in row] for row in inputs["gradients"]],
    }
    return probes.run_steps(torch.optim.AdamW, **wide)


def own_steps(student, inputs):
    """The parameters after each step if the student's own optimizer has each of them alone, in float64.

    A parameter alone has no groups, no step without a gradient and no wait until it joins: just its steps.
    """
    rows = [list(inputs["parameters"]) for _ in inputs["gradients"]]
    for i, p in enumerate(inputs["parameters"]):
        group = next((g for g in inputs.get("groups", ()) if i in g["members"]), {"members": [i]})
        options = {**inputs["options"], **{k: v for k, v in group.items() if k not in ("members", "joins")}}
        taken = [t for t, row in enumerate(inputs["gradients"]) if row[i] is not None and t >= group.get("joins", 0)]
        gradients = [[inputs["gradients"][t][i].double()] for t in taken]
        alone = {"parameters": [p.double()], "gradients": gradients, "options": options}
        after = student.run(probes.trajectory, optimizer="AdamW", **alone)
        for t in range(len(rows)):
            steps_so_far = sum(step <= t for step in taken)
            rows[t][i] = after[steps_so_far - 1][0] if steps_so_far else p
    return rows


def check_steps(got, expected, *, atol, hint=None, first=0):
    """Every parameter after every step, as far as a step's parameters came back at all."""
    expect.that(type(got) is list and len(got) == len(expected), "no parameters came back", of="AdamW")
    for step, (row, expected_row) in enumerate(zip(got, expected, strict=True), start=first + 1):
        for p, want in zip(row, expected_row, strict=True):
            name = f"a parameter after step {step}"
            expect.tensor(p, want, of="AdamW", atol=atol, name=name, hint=hint)


def check_trajectory(student, inputs, expected, *, hint=None):
    got = student.run(probes.trajectory, optimizer="AdamW", **inputs)
    options = inputs["options"]
    atol = tolerance(len(expected), lr=options["lr"], betas=options["betas"], largest=1.5)
    check_steps(got, expected, atol=atol, hint=hint)


# Stays: its eps is as large as its gradients, so it tells the places where ε can stand apart by far.
@pytest.mark.points(4)
def test_small_gradients_and_a_large_eps(student, rng):
    """Decay first, then lr · m̂ / (√v̂ + ε): ε outside the root and not scaled by the bias correction."""
    inputs = {**random_run(rng, 3), "options": OPTIONS}
    check_trajectory(student, inputs, expected_steps(inputs), hint=EPS_HINT)


# Stays: it is held against a closed form, and the other tests of the formula against torch's own optimizer.
@pytest.mark.points(3)
def test_a_constant_gradient(student, rng):
    """With the same gradient g at every step, m̂ = g and v̂ = g² from the first step on."""
    run = random_run(rng, 1, shapes=[(3, 5)])
    (p,), ((g,),) = run["parameters"], run["gradients"]
    options = {"lr": 0.1, "betas": (0.7, 0.9), "eps": 1e-2, "weight_decay": 0.5}
    got = student.run(probes.trajectory, optimizer="AdamW", parameters=[p], gradients=[[g]] * 4, options=options)
    expected = []
    for _ in range(4):
        p = p * (1 - 0.1 * 0.5) - 0.1 * g / (g.abs() + 1e-2)
        expected.append([p])
    atol = tolerance(4, lr=0.1, betas=options["betas"], largest=1.5)
    check_steps(got, expected, atol=atol, hint="m is corrected with β₁, v with β₂, each by 1 − βᵗ of this very step")


@pytest.mark.points(2)
def test_a_gradient_of_zeros_only_decays(student, rng):
    """Where the gradient is 0, a step multiplies p by 1 − lr · weight_decay and does nothing else."""
    run = random_run(rng, 5, scale=0.0)
    got = student.run(probes.trajectory, optimizer="AdamW", options=OPTIONS, **run)
    expected = [[p * 0.95**t for p in run["parameters"]] for t in range(1, 6)]
    atol = tolerance(5, lr=0.0, betas=(0.8, 0.9), largest=1.5)
    check_steps(got, expected, atol=atol, hint="the decay acts on the parameter, not on its gradient, and counts lr")


@pytest.mark.points(4)
def test_a_longer_run(student, rng):
    """Twelve steps agree with torch.optim.AdamW for any lr, betas, eps and weight_decay."""
    for betas in [(0.9, 0.95), (0.5, 0.8), (0.0, 0.9), (0.8, 0.6)]:
        lr, eps, tenth = (10 ** float(torch.empty(()).uniform_(-3, -1, generator=rng)) for _ in range(3))
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 10 * tenth}
        inputs = {**random_run(rng, 12, scale=0.1), "options": options}
        check_trajectory(student, inputs, expected_steps(inputs), hint="is every option used?")


def test_default_options(student, rng):
    """Without options lr is 1e-3, betas are (0.9, 0.999), eps is 1e-8 and weight_decay is 0.01."""
    run = random_run(rng, 5, shapes=[(4, 3), (6,)])
    run["parameters"][0] *= 10  # so that the decay, 1e-5 of it a step, shows
    run["gradients"] = [[g, h * 1e-6] for g, h in run["gradients"]]  # the second ones are about as small as eps
    atol = tolerance(5, lr=1e-3, betas=(0.9, 0.999), largest=15)
    got = student.run(probes.trajectory, optimizer="AdamW", options={}, **run)
    named = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}
    expected = own_steps(student, {**run, "options": named})
    check_steps(got, expected, atol=atol, hint="are the defaults those of the signature?")


def test_every_group_has_its_options(student, rng):
    """Each group steps by its own options; those that it does not name are the optimizer's."""
    groups = [
        {"members": [0], "weight_decay": 0.0},
        {"members": [2], "lr": 0.03, "eps": 0.1},
        {"members": [1], "betas": (0.5, 0.6)},
    ]
    inputs = {**random_run(rng, 4), "options": OPTIONS, "groups": groups}
    check_trajectory(student, inputs, own_steps(student, inputs), hint="read options from the group, for every group")


def test_options_change_between_steps(student, rng):
    """A step uses what stands in the group at that step, as a learning-rate schedule leaves it there."""
    run = random_run(rng, 4)
    schedule = [{"lr": 0.1}, {"lr": 0.0}, {"lr": 0.05}, {"lr": 0.0}]
    got = student.run(probes.trajectory, optimizer="AdamW", options=OPTIONS, schedule=schedule, **run)
    hint = "read the options from the group in each step, not from defaults or self"
    before = [run["parameters"], *got]
    for step in (1, 3):
        for p, want in zip(got[step], before[step], strict=True):
            expect.tensor(p, want, of="AdamW", name="a parameter after a step whose lr is 0", hint=hint)
    for p, old in zip(got[2], got[1], strict=True):
        expect.that(bool((p != old).all()), "no change in a step whose lr is not 0 any more", of="AdamW", hint=hint)


def test_a_group_added_later(student, rng):
    """Parameters added with add_param_group start their own count of steps, with options of their own."""
    groups = [{"members": [1]}, {"members": [0, 2], "joins": 2, "lr": 0.05}]
    inputs = {**random_run(rng, 5), "options": OPTIONS, "groups": groups}
    hint = "is there state for a parameter that came after __init__?"
    check_trajectory(student, inputs, own_steps(student, inputs), hint=hint)


# Stays: a parameter that never has a gradient, as a frozen one, is the plain case of the rule, and has to keep every bit.
def test_no_gradient_no_change(student, rng):
    """A parameter whose gradient is None is skipped: it does not even decay."""
    run = random_run(rng, 3)
    run["gradients"] = [[None, g, None] for _, g, _ in run["gradients"]]
    got = student.run(probes.trajectory, optimizer="AdamW", options=OPTIONS, **run)
    atol = tolerance(3, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    check_steps(got, own_steps(student, {**run, "options": OPTIONS}), atol=atol, hint="skip it before the decay")
    for i in (0, 2):
        name = "a parameter without a gradient"
        expect.tensor(got[-1][i], run["parameters"][i], of="AdamW", name=name, hint="skip it before the decay")


# Stays: a wrong count also shows after a state_dict or in a late group, and only here can nothing else be at fault.
def test_each_parameter_counts_its_own_steps(student, rng):
    """A parameter with a gradient at steps 1, 3 and 4 only is at its second step in step 3."""
    run = random_run(rng, 4)
    run["gradients"][1][0] = run["gradients"][1][2] = run["gradients"][0][1] = None
    hint = "the count of steps belongs to the parameter, as m and v do"
    inputs = {**run, "options": OPTIONS}
    check_trajectory(student, inputs, own_steps(student, inputs), hint=hint)


def test_goes_on_from_a_state_dict(student, rng):
    """A fresh optimizer that loads a state_dict goes on as the first one would have: m, v, count and options."""
    groups = [{"members": [0, 1], "lr": 0.04}, {"members": [2]}]
    inputs = {**random_run(rng, 6), "options": OPTIONS, "groups": groups}
    inputs["gradients"][1][1] = None
    got = student.run(probes.resumed, optimizer="AdamW", stop=3, **inputs)
    atol = tolerance(6, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    hint = "what a step needs from earlier ones stands in self.state[p], where state_dict finds it"
    check_steps(got, own_steps(student, inputs)[3:], atol=atol, hint=hint, first=3)


def test_keeps_two_numbers_a_weight(student, rng):
    """After a step self.state[p] holds m and v, two tensors of p's size."""
    run = random_run(rng, 2)
    got = student.run(probes.state_elements, optimizer="AdamW", options=OPTIONS, **run)
    for elements, p in zip(got, run["parameters"], strict=True):
        reason = "self.state[p] holds fewer than two numbers a weight"
        expect.that(elements >= 2 * p.numel(), reason, of="AdamW", hint="m and v belong in self.state[p]")


def test_changes_parameters_in_place(student, rng):
    """A parameter stays the same leaf with the same storage, so that a view made before shows the step."""
    run = random_run(rng, 2)
    got = student.run(probes.leavings, optimizer="AdamW", options=OPTIONS, **run)
    hint = "an in-place operation such as p.mul_ or p.add_, not a new tensor for p or p.data"
    for p, view in zip(got["parameters"], got["views"], strict=True):
        expect.tensor(view, p, of="AdamW", name="a view of a parameter after two steps", hint=hint)
    expect.that(got["are_leaves"], "a parameter is no longer a leaf that requires a gradient", of="AdamW", hint=hint)
    expect.that(got["are_in_groups"], "param_groups hold other tensors than before", of="AdamW", hint=hint)
    expected = own_steps(student, {**run, "options": OPTIONS})[-1:]
    check_steps([got["parameters"]], expected, atol=tolerance(2, lr=0.1, betas=(0.8, 0.9), largest=1.5), first=1)


def test_leaves_gradients_as_they_were(student, rng):
    """A step changes no gradient and clears none."""
    run = random_run(rng, 3)
    run["gradients"][1][2] = None
    got = student.run(probes.leavings, optimizer="AdamW", options=OPTIONS, **run)["gradients"]
    for row, expected_row in zip(got, run["gradients"], strict=True):
        for gradient, expected in zip(row, expected_row, strict=True):
            if expected is None:
                expect.that(gradient is None, "a gradient that was None is not after the step", of="AdamW")
            else:
                hint = "an operation in place on p.grad, or a moment that is p.grad itself?"
                expect.tensor(gradient, expected, of="AdamW", name="a gradient after a step", hint=hint)


def test_calls_the_closure(student, rng):
    """The closure is called once a step, with gradients on and before any change, and the step uses its gradients."""
    p = random_run(rng, 1, shapes=[(5,)])["parameters"][0]
    got = student.run(probes.with_closure, optimizer="AdamW", parameter=p, options=OPTIONS, steps=3, as_float=False)
    expect.value(len(got["seen"]), 3, of="AdamW.step", hint="once a step, no more and no less")
    expect.value(got["grad_enabled"], [True] * 3, of="AdamW.step", hint="with torch.enable_grad(): loss = closure()")
    seen, gradients = got["seen"], [[2 * x] for x in got["seen"]]
    for step in range(3):
        before = [p, *got["parameters"]][step]
        hint = "the closure comes first: it makes the gradients of this step"
        expect.tensor(seen[step], before, of="AdamW.step", name="the parameter that the closure saw", hint=hint)
    expected = own_steps(student, {"parameters": [p], "gradients": gradients, "options": OPTIONS})
    atol = tolerance(3, lr=0.1, betas=(0.8, 0.9), largest=1.5)
    check_steps([[p] for p in got["parameters"]], expected, atol=atol, hint="are the closure's gradients used?")


@pytest.mark.parametrize("as_float", [False, True], ids=["tensor", "float"])
def test_returns_the_loss(student, rng, as_float):
    """A step returns what its closure returned, a tensor or a float."""
    p = random_run(rng, 1, shapes=[(4,)])["parameters"][0]
    got = student.run(probes.with_closure, optimizer="AdamW", parameter=p, options=OPTIONS, steps=2, as_float=as_float)
    expect.value(len(got["losses"]), 2, of="AdamW.step", hint="once a step, no more and no less")
    for returned, loss in zip(got["returned"], got["losses"], strict=True):
        hint = "return the closure's loss"
        if as_float:
            expect.value(returned, loss, of="AdamW.step", hint=hint)
        else:
            expect.tensor(returned, loss, of="AdamW.step", name="the loss", hint=hint)


def test_float64_parameters_have_float64_moments(student, rng):
    """m and v have the parameter's precision and range: the square of 1e-25 is not 0 in float64."""
    inputs = {**random_run(rng, 3, scale=1e-25), "options": {**OPTIONS, "eps": 0.0}}
    hint = "torch.zeros_like(p) has p's dtype, torch.zeros(p.shape) the default one"
    check_trajectory(student, inputs, expected_steps(inputs), hint=hint)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_parameters_keep_their_dtype(student, rng, dtype):
    """Parameters of float32 and bfloat16 step as well, and stay what they are."""
    inputs = {**random_run(rng, 3, dtype=dtype), "options": OPTIONS}
    got = student.run(probes.trajectory, optimizer="AdamW", **inputs)
    expected = [[p.to(dtype) for p in row] for row in own_steps(student, inputs)]
    atol = tolerance(3, lr=0.1, betas=(0.8, 0.9), largest=1.5, dtype=dtype)
    for row, expected_row in zip(got, expected, strict=True):
        for p, want in zip(row, expected_row, strict=True):
            expect.tensor(p, want, of="AdamW", atol=atol, name=f"a {expect.dtype_name(dtype)} parameter")


def test_refuses_options_out_of_range(student):
    """A negative lr, eps or weight_decay, or a beta outside [0, 1), is a ValueError that names the argument."""
    wrong_calls = [
        ("lr is negative", None, {"lr": -1e-3}),
        ("eps is negative", "eps", {"eps": -1e-8}),
        ("the first of betas is negative", "beta", {"betas": (-0.1, 0.9)}),
        ("the first of betas is 1", "beta", {"betas": (1.0, 0.9)}),
        ("the second of betas is negative", "beta", {"betas": (0.9, -0.1)}),
        ("the second of betas is 1", "beta", {"betas": (0.9, 1.0)}),
        ("weight_decay is negative", "weight", {"weight_decay": -0.01}),
    ]
    student.run(probes.construct, optimizer="AdamW", options=OPTIONS)
    for when, naming, options in wrong_calls:
        with expect.raises(ValueError, of="AdamW", when=when, naming=naming):
            student.run(probes.construct, optimizer="AdamW", options=options)


def test_takes_options_at_the_edge(student, rng):
    """0 is a right value of lr, of either beta, of eps and of weight_decay."""
    run = random_run(rng, 3)
    for edge in [{"lr": 0.0}, {"betas": (0.0, 0.5)}, {"betas": (0.5, 0.0)}, {"eps": 0.0, "weight_decay": 0.0}]:
        got = student.run(probes.trajectory, optimizer="AdamW", options={**OPTIONS, **edge}, **run)
        expect.that(
            all(bool(p.isfinite().all()) for p in got[-1]),
            "a parameter is not finite",
            of="AdamW",
            hint=f"{', '.join(edge)} may be 0",
        )
