"""optimizers: the parameters after every step of SGD, AdaGrad and RMSProp, and the bytes that an optimizer keeps.

Accepted on purpose: state under any keys, as tensors or tuples, made in __init__, with the group or at the first step; a
count of steps that nobody needs; state of a dtype wider than the parameter's; operations that commute in another order,
in place or not, as long as the parameter is the same leaf with the same storage; a None gradient taken for zeros by
AdaGrad, where it comes to the same; torch's own words for a wrong call ("learning rate" for lr); an alpha of 1 or more,
refused or not; tensors deeper inside a state, in a list, counted or not.

A class's formula is judged by tests of its own, against torch.optim's class of that name on the same gradients, with an
ε as large as the gradients, because ε = 1e-8 shows no mistake. Everything else (groups, None, state_dict, closures,
dtypes) is judged against the student's own optimizer of one parameter, and for each class apart: one mistake in a formula
costs that formula, and a class that is missing costs its own share.
"""

import pytest
import torch

from tests import expect
from tests.probes import optimizers as probes

SHAPES = [(3,), (), (2, 4)]
OPTIONS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "AdaGrad": {"lr": 0.1, "eps": 1e-2},
    "RMSProp": {"lr": 0.1, "alpha": 0.8, "eps": 1e-2},
}
SCALE = {"SGD": 1.0, "AdaGrad": 1e-2, "RMSProp": 1e-2}  # of the gradients: about ε, where there is one
TORCH = {"SGD": torch.optim.SGD, "AdaGrad": torch.optim.Adagrad, "RMSProp": torch.optim.RMSprop}


def tolerance(steps, *, direction=10.0, largest=10.0, dtype=torch.float32):
    """How far apart two right answers may be after some steps of an lr of at most 0.1, whatever their state's dtype.

    The state of step k has been rounded at most 4k times relative to its size, and what is made of it 8 times more: that
    is 4·steps + 8 roundings of a direction of at most `direction`. The parameter itself, never above `largest`, is
    rounded 4 times a step. State in float32 is accepted here, so float32 is what rounds; dtypes have tests of their own.
    """
    return steps * torch.finfo(dtype).eps * (0.1 * direction * (4 * steps + 8) + 4 * largest)


def away_from_zero(rng, shape, dtype=torch.float64):
    """Numbers between 0.5 and 1.5, or the negatives of that."""
    signs = torch.randint(0, 2, shape, generator=rng) * 2 - 1
    return ((torch.rand(shape, generator=rng, dtype=torch.float64) + 0.5) * signs).to(dtype)


def random_run(rng, kind, steps, *, shapes=SHAPES):
    """Parameters, and for each step gradients of the scale that shows most."""
    gradients = [[away_from_zero(rng, s) * SCALE[kind] for s in shapes] for _ in range(steps)]
    return {"parameters": [away_from_zero(rng, s) for s in shapes], "gradients": gradients, "options": OPTIONS[kind]}


def own_steps(student, kind, inputs):
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
        after = student.run(probes.trajectory, optimizer=kind, **alone)
        for t in range(len(rows)):
            steps_so_far = sum(step <= t for step in taken)
            rows[t][i] = after[steps_so_far - 1][0] if steps_so_far else p
    return rows


def check_steps(got, expected, *, kind, atol, hint=None, first=1):
    """Every parameter after every step."""
    for step, (row, expected_row) in enumerate(zip(got, expected, strict=True), start=first):
        for p, want in zip(row, expected_row, strict=True):
            expect.tensor(p, want, of=kind, atol=atol, name=f"a parameter after step {step}", hint=hint)


def check_formula(student, kind, inputs, *, hint):
    """A run agrees with torch's class."""
    got = student.run(probes.trajectory, optimizer=kind, **inputs)
    expected = probes.run_steps(TORCH[kind], **inputs)
    check_steps(got, expected, kind=kind, atol=tolerance(len(expected)), hint=hint)


# --- the formulas


@pytest.mark.points(2)
def test_sgd_without_momentum(student, rng):
    """Without momentum a step is p − lr · g, and after some of them p has moved by lr times the gradients' sum."""
    run = random_run(rng, "SGD", 4)
    lr = float(torch.empty(()).uniform_(0.01, 0.1, generator=rng))
    got = student.run(probes.trajectory, optimizer="SGD", **{**run, "options": {"lr": lr, "momentum": 0.0}})
    moved = [sum(gradients) for gradients in zip(*run["gradients"], strict=True)]
    expected = [p - lr * total for p, total in zip(run["parameters"], moved, strict=True)]
    check_steps(got[-1:], [expected], kind="SGD", atol=tolerance(4), hint="against the gradient, lr times", first=4)


@pytest.mark.points(2)
def test_sgd_with_momentum(student, rng):
    """With momentum b ← momentum · b + g, where g counts whole and the first b is g; then p ← p − lr · b."""
    for momentum in (0.9, 0.3, 1.0):
        inputs = {**random_run(rng, "SGD", 5), "options": {"lr": 0.1, "momentum": momentum}}
        check_formula(student, "SGD", inputs, hint="b starts at 0 and every g enters it whole")


def test_sgd_changes_lr_at_once(student, rng):
    """lr stands outside b: what older gradients have left in b is multiplied by the lr of this step."""
    run = random_run(rng, "SGD", 5)
    constant = [run["parameters"], *student.run(probes.trajectory, optimizer="SGD", **run)]
    rates = [0.02, 0.1, 0.05, 0.0, 0.08]
    got = student.run(probes.trajectory, optimizer="SGD", schedule=[{"lr": lr} for lr in rates], **run)
    expected, now = [], run["parameters"]
    for lr, before, after in zip(rates, constant, constant[1:], strict=False):
        now = [p - lr / OPTIONS["SGD"]["lr"] * (b - a) for p, b, a in zip(now, before, after, strict=True)]
        expected.append(now)
    # Each of five steps adds at most the errors of two places of the other run.
    check_steps(got, expected, kind="SGD", atol=11 * tolerance(5), hint="is lr multiplied into what is kept?")


def test_sgd_keeps_nothing_without_momentum(student, rng):
    """With momentum 0 no number a weight is kept."""
    run = random_run(rng, "SGD", 2, shapes=[(4,), (2, 3)])
    # Where there is momentum the call has to work as well.
    student.run(probes.state_elements, optimizer="SGD", **run)
    got = student.run(probes.state_elements, optimizer="SGD", **{**run, "options": {"lr": 0.1, "momentum": 0.0}})
    for elements, p in zip(got, run["parameters"], strict=True):
        reason = "self.state[p] holds a number a weight although momentum is 0"
        expect.that(elements < p.numel(), reason, of="SGD", hint="what does a step without momentum have to remember?")


@pytest.mark.points(4)
def test_adagrad_formula(student, rng):
    """s ← s + g², starting at 0, and p ← p − lr · g / (√s + ε): ε outside the root, s with this step's g in it."""
    for lr, eps in ((0.1, 1e-2), (0.05, 1e-4), (0.02, 0.05)):
        inputs = {**random_run(rng, "AdaGrad", 5), "options": {"lr": lr, "eps": eps}}
        check_formula(student, "AdaGrad", inputs, hint="s is a sum of squares; ε is added to its root")


@pytest.mark.points(4)
def test_rmsprop_formula(student, rng):
    """v ← α v + (1 − α) g², starting at 0, and p ← p − lr · g / (√v + ε): ε outside the root, no correction of v."""
    for lr, alpha, eps in ((0.1, 0.8, 1e-2), (0.05, 0.9, 1e-4), (0.02, 0.3, 0.05)):
        inputs = {**random_run(rng, "RMSProp", 5), "options": {"lr": lr, "alpha": alpha, "eps": eps}}
        check_formula(student, "RMSProp", inputs, hint="α stays with the old mean; ε is added to the root; nothing else")


# --- what every optimizer does, for each class apart


def check_groups(student, rng, kind, first, second):
    groups = [{"members": [0], **first}, {"members": [2]}, {"members": [1], "joins": 2, **second}]
    inputs = {**random_run(rng, kind, 4), "groups": groups}
    got = student.run(probes.trajectory, optimizer=kind, **inputs)
    hint = "read each option from the group, in every step, for every group"
    check_steps(got, own_steps(student, kind, inputs), kind=kind, atol=tolerance(4), hint=hint)
    run = random_run(rng, kind, 2)
    got = student.run(probes.trajectory, optimizer=kind, schedule=[{"lr": 0.0}, {"lr": 0.05}], **run)
    for p, before in zip(got[0], run["parameters"], strict=True):
        expect.tensor(p, before, of=kind, name="a parameter after a step whose lr is 0", hint=hint)
    for p, before in zip(got[1], got[0], strict=True):
        expect.that(bool((p != before).any()), "no change in a step whose lr is not 0 any more", of=kind, hint=hint)


def test_sgd_groups(student, rng):
    """SGD: each group steps by its own options as they stand at that step, a group that was added later too."""
    check_groups(student, rng, "SGD", {"lr": 0.03}, {"momentum": 0.3})


def test_adagrad_groups(student, rng):
    """AdaGrad: each group steps by its own options as they stand at that step, a group that was added later too."""
    check_groups(student, rng, "AdaGrad", {"lr": 0.03}, {"eps": 0.1})


def test_rmsprop_groups(student, rng):
    """RMSProp: each group steps by its own options as they stand at that step, a group that was added later too."""
    check_groups(student, rng, "RMSProp", {"lr": 0.03, "eps": 0.1}, {"alpha": 0.3})


def check_none(student, rng, kind):
    run = random_run(rng, kind, 4)
    for step, i in [(0, 0), (2, 0), (1, 2), *((step, 1) for step in range(4))]:
        run["gradients"][step][i] = None
    got = student.run(probes.trajectory, optimizer=kind, **run)
    hint = "where p.grad is None, go on with the next parameter"
    check_steps(got, own_steps(student, kind, run), kind=kind, atol=tolerance(4), hint=hint)
    expect.tensor(got[-1][1], run["parameters"][1], of=kind, name="a parameter that never had a gradient", hint=hint)


def test_sgd_without_a_gradient(student, rng):
    """SGD: where a gradient is None, neither the parameter nor what is kept for it changes; the others step."""
    check_none(student, rng, "SGD")


def test_adagrad_without_a_gradient(student, rng):
    """AdaGrad: where a gradient is None, neither the parameter nor what is kept for it changes; the others step."""
    check_none(student, rng, "AdaGrad")


def test_rmsprop_without_a_gradient(student, rng):
    """RMSProp: where a gradient is None, neither the parameter nor what is kept for it changes; the others step."""
    check_none(student, rng, "RMSProp")


def check_resumed(student, rng, kind):
    groups = [{"members": [0, 1], "lr": 0.04}, {"members": [2]}]
    inputs = {**random_run(rng, kind, 5), "groups": groups}
    got = student.run(probes.resumed, optimizer=kind, stop=3, **inputs)
    hint = "what a step needs from earlier ones stands in self.state[p], where state_dict finds it"
    expected = own_steps(student, kind, inputs)[3:]
    check_steps(got, expected, kind=kind, atol=tolerance(5), hint=hint, first=4)


def test_sgd_goes_on_from_a_state_dict(student, rng):
    """SGD: a fresh optimizer that loads a state_dict goes on as the first one would have, with its options."""
    check_resumed(student, rng, "SGD")


def test_adagrad_goes_on_from_a_state_dict(student, rng):
    """AdaGrad: a fresh optimizer that loads a state_dict goes on as the first one would have, with its options."""
    check_resumed(student, rng, "AdaGrad")


def test_rmsprop_goes_on_from_a_state_dict(student, rng):
    """RMSProp: a fresh optimizer that loads a state_dict goes on as the first one would have, with its options."""
    check_resumed(student, rng, "RMSProp")


def check_leavings(student, rng, kind):
    run = random_run(rng, kind, 2, shapes=[(3,), (2, 4), (5,)])
    for i, dtype in enumerate((torch.float64, torch.float32, torch.bfloat16)):
        run["parameters"][i] = run["parameters"][i].to(dtype)
        for row in run["gradients"]:
            row[i] = row[i].to(dtype)
    got = student.run(probes.leavings, optimizer=kind, **run)
    hint = "an in-place operation such as p.sub_ or p.addcdiv_, not a new tensor for p or p.data"
    for p, view in zip(got["parameters"], got["views"], strict=True):
        expect.tensor(p, view, of=kind, name="a parameter, beside a view of it made before the steps", hint=hint)
    expect.that(got["are_leaves"], "a parameter is no longer a leaf that requires a gradient", of=kind, hint=hint)
    expect.that(got["are_in_groups"], "param_groups hold other tensors than before", of=kind, hint=hint)
    for p, want, before in zip(got["parameters"], own_steps(student, kind, run)[-1], run["parameters"], strict=True):
        # Two steps: |b| ≤ 1.5 + 0.9 · 1.5 < 3, g / √v ≤ 1 / √0.2 < 3, and no parameter is above 1.5 + 2 · 0.1 · 3 = 2.1.
        rounds = torch.bfloat16 if before.dtype == torch.bfloat16 else torch.float32
        atol = tolerance(2, direction=3, largest=2.1, dtype=rounds)
        expect.tensor(p, want.to(before.dtype), of=kind, atol=atol, name=f"a {expect.dtype_name(before.dtype)} parameter")
        expect.that(bool((p != before).any()), "a parameter does not change", of=kind, hint=hint)
    for row, before in zip(got["gradients"], run["gradients"], strict=True):
        for gradient, g in zip(row, before, strict=True):
            hint = "an operation in place on p.grad, or a buffer that is p.grad itself?"
            expect.tensor(gradient, g, of=kind, name="a gradient after a step", hint=hint)


def test_sgd_works_in_place(student, rng):
    """SGD: a parameter stays the same leaf with its storage and dtype, and a step changes no gradient."""
    check_leavings(student, rng, "SGD")


def test_adagrad_works_in_place(student, rng):
    """AdaGrad: a parameter stays the same leaf with its storage and dtype, and a step changes no gradient."""
    check_leavings(student, rng, "AdaGrad")


def test_rmsprop_works_in_place(student, rng):
    """RMSProp: a parameter stays the same leaf with its storage and dtype, and a step changes no gradient."""
    check_leavings(student, rng, "RMSProp")


def check_scaled(student, rng, kind, power):
    """Gradients times 2**-power: SGD's steps from 0 are so many times smaller, the other two's are the same."""
    run = random_run(rng, kind, 3)
    run["parameters"] = [torch.zeros_like(p) for p in run["parameters"]]
    if kind != "SGD":
        run["options"] = {**run["options"], "eps": 1e-300}  # plays no part
    small = {**run, "gradients": [[g * 2.0**-power for g in row] for row in run["gradients"]]}
    expected = student.run(probes.trajectory, optimizer=kind, **run)
    got = student.run(probes.trajectory, optimizer=kind, **small)
    back = 2.0**power if kind == "SGD" else 1.0
    hint = "torch.zeros_like(p) has p's dtype, torch.zeros(p.shape) the default one"
    check_steps([[p * back for p in row] for row in got], expected, kind=kind, atol=tolerance(3), hint=hint)


def test_sgd_keeps_the_dtype(student, rng):
    """SGD: b has the parameter's precision and range: in float64 gradients of 1e-60 are not 0."""
    check_scaled(student, rng, "SGD", 200)


def test_adagrad_keeps_the_dtype(student, rng):
    """AdaGrad: s has the parameter's precision and range: in float64 the square of 1e-26 is not 0."""
    check_scaled(student, rng, "AdaGrad", 80)


def test_rmsprop_keeps_the_dtype(student, rng):
    """RMSProp: v has the parameter's precision and range: in float64 the square of 1e-26 is not 0."""
    check_scaled(student, rng, "RMSProp", 80)


def check_closure(student, rng, kind):
    p = away_from_zero(rng, (5,))
    options, of = OPTIONS[kind], f"{kind}.step"
    for as_float in (False, True):
        got = student.run(probes.with_closure, optimizer=kind, parameter=p, options=options, steps=3, as_float=as_float)
        expect.value(len(got["seen"]), 3, of=of, hint="once a step, no more and no less")
        expect.value(got["grad_enabled"], [True] * 3, of=of, hint="with torch.enable_grad(): loss = closure()")
        for seen, before in zip(got["seen"], [p, *got["parameters"]], strict=False):
            hint = "the closure comes first: it makes the gradients of this step"
            expect.tensor(seen, before, of=of, name="the parameter that the closure saw", hint=hint)
        for returned, loss in zip(got["returned"], got["losses"], strict=True):
            if as_float:
                expect.value(returned, loss, of=of, hint="return the closure's loss")
            else:
                expect.tensor(returned, loss, of=of, name="the loss", hint="return the closure's loss")
        alone = {"parameters": [p], "gradients": [[2 * x] for x in got["seen"]], "options": options}
        expected = own_steps(student, kind, alone)
        after = [[x] for x in got["parameters"]]
        check_steps(after, expected, kind=kind, atol=tolerance(3), hint="are the closure's gradients used?")


def test_sgd_closure(student, rng):
    """SGD: the closure is called once, gradients on, before any change; its gradients count, its loss comes back."""
    check_closure(student, rng, "SGD")


def test_adagrad_closure(student, rng):
    """AdaGrad: the closure is called once, gradients on, before any change; its gradients count, its loss comes back."""
    check_closure(student, rng, "AdaGrad")


def test_rmsprop_closure(student, rng):
    """RMSProp: the closure is called once, gradients on, before any change; its gradients count, its loss comes back."""
    check_closure(student, rng, "RMSProp")


def check_options(student, rng, kind, defaults, scale):
    """Defaults, with gradients of a scale that shows all of them; 0; and negative values."""
    run = random_run(rng, kind, 3)
    run["gradients"] = [[g / SCALE[kind] * scale for g in row] for row in run["gradients"]]
    got = student.run(probes.trajectory, optimizer=kind, **{**run, "options": {}})
    expected = own_steps(student, kind, {**run, "options": defaults})
    hint = "are the defaults those of the signature?"
    check_steps(got, expected, kind=kind, atol=tolerance(3), hint=hint)
    for name in defaults:
        at_zero = {**random_run(rng, kind, 2), "options": {**OPTIONS[kind], name: 0.0}}
        got = student.run(probes.trajectory, optimizer=kind, **at_zero)
        finite = all(bool(p.isfinite().all()) for p in got[-1])
        expect.that(finite, f"a parameter is not finite where {name} is 0", of=kind, hint=f"{name} may be 0")
        naming = None if name == "lr" else name
        with expect.raises(ValueError, of=kind, when=f"{name} is negative", naming=naming):
            student.run(probes.construct, optimizer=kind, options={name: -1e-9})


def test_sgd_options(student, rng):
    """SGD: lr 1e-3 and momentum 0 by default; each may be 0, and a negative one is a ValueError that names it."""
    check_options(student, rng, "SGD", {"lr": 1e-3, "momentum": 0.0}, 1.0)


def test_adagrad_options(student, rng):
    """AdaGrad: lr 1e-2 and eps 1e-10 by default; each may be 0, and a negative one is a ValueError that names it."""
    check_options(student, rng, "AdaGrad", {"lr": 1e-2, "eps": 1e-10}, 1e-10)


def test_rmsprop_options(student, rng):
    """RMSProp: lr 1e-2, alpha 0.99 and eps 1e-8 by default; each may be 0, and a negative one is a ValueError that names it."""
    check_options(student, rng, "RMSProp", {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8}, 1e-7)


# --- optimizer_state_bytes

OF = "optimizer_state_bytes"


def sizes(rng, count, low=2, high=9):
    """Distinct sizes."""
    return (low + torch.randperm(high - low, generator=rng)[:count]).tolist()


def test_state_bytes_by_dtype(student, rng):
    """Each tensor in each parameter's state counts with its elements times the bytes of its own dtype, in all groups."""
    a, b, c = sizes(rng, 3)
    eight_bit = {"codes": torch.zeros(a, b, dtype=torch.uint8), "scales": torch.zeros(c, dtype=torch.float32)}
    states = [
        {"m": torch.zeros(a, c, dtype=torch.bfloat16), "v": torch.zeros(a, c, dtype=torch.float64)},
        {"sum": torch.zeros(b, 2, c)},
        eight_bit,
    ]
    expected = a * c * (2 + 8) + b * 2 * c * 4 + a * b + c * 4
    got = student.run(probes.bytes_of_states, states=states)
    expect.value(got, expected, of=OF, hint="every tensor of every parameter, by its element_size()")


def test_state_bytes_without_single_elements(student, rng):
    """A tensor of one element is not counted, whatever its shape: a count of steps, or what is kept for a single weight."""
    (a,) = sizes(rng, 1)
    whole = torch.tensor(2, dtype=torch.int64)
    state = {"step": torch.tensor(7.0), "count": whole, "scale": torch.ones(1), "m": torch.zeros(a), "v": torch.zeros(1, 1)}
    got = student.run(probes.bytes_of_states, states=[state])
    expect.value(got, 4 * a, of=OF, hint="numel() tells how many elements; a shape does not")
    got = student.run(probes.bytes_of_states, states=[{"m": torch.zeros(2)}])
    expect.value(got, 8, of=OF, hint="two elements are more than one")


def test_state_bytes_of_what_is_no_tensor(student, rng):
    """Numbers, None and text in a state are not counted, and an optimizer that keeps nothing keeps 0 bytes."""
    (a,) = sizes(rng, 1)
    state = {"step": 12, "factor": 0.5, "buffer": None, "note": "warm", "m": torch.zeros(3, a)}
    expect.value(student.run(probes.bytes_of_states, states=[state]), 12 * a, of=OF, hint="only tensors are counted")
    for states in ([], [{}, {}], [{"step": 3, "buffer": None}]):
        expect.value(student.run(probes.bytes_of_states, states=states), 0, of=OF, hint="nothing kept is 0, an int")


# Stays: the states above are made up; these are the ones that a student will count.
def test_state_bytes_of_torchs_own(student, rng):
    """Of torch's own optimizers: nothing before the first step, then so many numbers a weight that had a gradient."""
    a, b, c = sizes(rng, 3)
    parameters = [torch.ones(a, b), torch.ones(c, dtype=torch.float64), torch.ones(()), torch.ones(b, c)]
    gradients = [[torch.full_like(p, 0.1) for p in parameters[:3]] + [None]] * 2
    for name, options, numbers in [("Adam", {"amsgrad": True}, 3), ("AdamW", {}, 2), ("Adamax", {}, 2)]:
        inputs = {"parameters": parameters, "gradients": gradients, "options": options}
        got = student.run(probes.bytes_of_run, optimizer=name, **inputs)
        expect.value(got["before"], 0, of=OF, hint="before its first step an optimizer keeps nothing")
        hint = "count what stands in optimizer.state, under whatever name"
        expect.value(got["after"], numbers * (a * b * 4 + c * 8), of=OF, hint=hint)
