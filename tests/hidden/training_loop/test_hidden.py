"""training_loop: what each step does, what a run returns, and how it resumes after a kill.

Accepted on purpose: batches from any generator that the seed determines, because the tests record
the batches that the model is given and compute loss, gradients and norms of those in float64;
micro-batches of any sizes up to the given one, in any order; gradients set to None or to zero;
scaling by max/norm or max/(norm + 1e-6); a loss and a schedule computed in float32 or float64;
training in the modes of the given model or in training mode; evaluation before or after the
checkpoint of that step; any checkpoint format, and any temporary file next to it; additional keys
in the log. The values of evaluation losses are not judged where evaluation draws random numbers.

All tokens of the training data are different, and none occurs in the validation data. So a token
identifies its data, its position in them, and the token that follows. Most rules are judged
separately, from the parameters that the student's own run had before a step, so that a mistake in
one step does not cost points again in later ones. Runs that are killed are compared bit for bit
with the student's own uninterrupted run.
"""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit import expect
from tests.probes import training as probes

# A check in the student's code, or the error that an empty range of starts raises.
TOO_SHORT = (ValueError, RuntimeError, IndexError)
EPS = torch.finfo(torch.float32).eps
TRAIN, VAL, WIDTH = 23, 17, 5
VOCABULARY = TRAIN + VAL
DEFAULTS = {
    "steps": 5,
    "batch_size": 4,
    "context_length": 6,
    "max_learning_rate": 0.5,
    "min_learning_rate": 0.1,
    "warmup_steps": 0,
    "max_grad_norm": None,
}


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def run_of(rng, *, model=None, optimizer="SGD", **config):
    """The inputs of a run: a model, and shuffled tokens, 0 … 22 (train) and 23 … 39 (val)."""
    parameters = [torch.randn(VOCABULARY, WIDTH, generator=rng) * 0.6 for _ in range(2)]
    return {
        "parameters": parameters,
        "config": {**DEFAULTS, "seed": integer(rng, 0, 2**20), **config},
        "train_tokens": torch.randperm(TRAIN, generator=rng).numpy(),
        "val_tokens": torch.randperm(VAL, generator=rng).numpy() + TRAIN,
        "model": model or {},
        "optimizer": optimizer,
    }


def with_one_window(run):
    """The same inputs with so little data that each window is the same, however it is drawn.

    A student's answers then do not depend on the order of draws, so that mistakes can be named.
    """
    length = run["config"]["context_length"] + 1
    return {**run, "train_tokens": run["train_tokens"][:length]}


def changed(inputs, **config):
    """The same inputs with some fields of the config replaced."""
    return {**inputs, "config": {**inputs["config"], **config}}


def trained(student, **run):
    """One run of the student's code, as the probe recorded it."""
    return readable(student.run(probes.trained, **run), run)


def readable(got, run):
    """Check that a run's records fit together, so that tests may index, add and compare them."""
    asked, steps = got["forwards"], got.get("steps", {"parameters": [], "gradients": []})
    vocabulary, rows = len(run["parameters"][0]), [*steps["parameters"], got["parameters"]]
    fit = len({len(part) for name, part in asked.items() if name != "logits"}) == 1
    fit = fit and len({len(part) for part in steps.values()}) == 1
    fit = fit and all(
        len(row) >= 2 and row[0].shape == row[1].shape == run["parameters"][0].shape for row in rows
    )
    fit = fit and all(len(row) == len(rows[0]) for row in [*rows, *steps["gradients"]])
    for tokens in asked["tokens"]:
        fit = fit and tokens.dim() == 2 and tokens.numel() > 0 and not tokens.is_floating_point()
        fit = fit and 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary
    expect.that(fit, "train does not use the model or the optimizer as intended", of="train")
    return got


# --- what came back


def check_result(got):
    """Check that train returned a TrainResult, and return its fields."""
    result = got["result"] if isinstance(got, dict) and "result" in got else got
    expect.that(result is not None, "returned None: is a `return` missing?", of="train")
    is_result = isinstance(result, dict) and set(result) == set(probes.FIELDS)
    expect.that(is_result, f"expected a TrainResult, got {expect.type_name(result)}", of="train")
    return result


def column(got, name, count):
    """Check that one of the result's lists contains `count` finite numbers, and return it.

    Another test judges whether they are floats.
    """
    values = check_result(got)[name]
    expect.kind(values, list, of="train", name=name)
    reason = f"{name} has {len(values)} entries for {count} steps"
    expect.that(
        len(values) == count, reason, of="train", hint="one entry for each step of this call"
    )
    return [finite(value, name) for value in values]


def finite(value, name):
    """A number from a result, which may be a tensor of one element."""
    value = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    expect.kind(value, (float, int), of="train", name=f"an entry of {name}")
    number = float(value)
    expect.that(math.isfinite(number), f"an entry of {name} is {number}", of="train")
    return number


def first_step(got):
    """The step that a run says it started with."""
    first = check_result(got)["first_step"]
    expect.kind(first, int, of="train", name="first_step")
    return first


def eval_losses(got):
    """The result's evaluations, as a dict from the number of steps taken to the loss."""
    losses = check_result(got)["eval_losses"]
    expect.kind(losses, dict, of="train", name="eval_losses")
    for key in losses:
        expect.kind(key, int, of="train", name="a key of eval_losses")
    return {key: finite(loss, "eval_losses") for key, loss in losses.items()}


def forwards(got, which):
    """The indices of the forward passes on "train" or "val" data."""
    chosen = []
    for number, tokens in enumerate(got["forwards"]["tokens"]):
        of_training = (tokens < TRAIN).float().mean().item()
        expect.that(
            of_training in (0, 1), "a batch mixes training and validation tokens", of="train"
        )
        chosen += [number] if of_training == (which == "train") else []
    return chosen


def batches(got, inputs):
    """The windows of each step as a (batch_size, context_length) tensor."""
    config = inputs["config"]
    count = config["steps"]
    parts = [[] for _ in range(count)]
    for number in forwards(got, "train"):
        step = got["forwards"]["steps_before"][number]
        expect.that(0 <= step < count, "a training batch is drawn after the last step", of="train")
        parts[step].append(got["forwards"]["tokens"][number].long())
    found = []
    for part in parts:
        expect.that(
            len(part) > 0,
            "a step has no training batch",
            of="train",
            hint="one optimizer.step for each batch",
        )
        widths = {tokens.shape[1] for tokens in part}
        expect.that(
            widths == {config["context_length"]},
            "a window is not context_length tokens long",
            of="train",
        )
        found.append(torch.cat(part))
        reason = f"{len(found[-1])} windows in a step with batch_size {config['batch_size']}"
        expect.that(
            len(found[-1]) == config["batch_size"],
            reason,
            of="train",
            hint="each of them goes through the model once",
        )
    return found


def starts_of(windows, data):
    """Where in the data each window begins.

    The data are treated as a ring, because another test judges whether a window reaches past the
    end.
    """
    places = torch.full((VOCABULARY,), -1)
    places[torch.from_numpy(data)] = torch.arange(len(data))
    starts = places[windows[:, 0]]
    expect.that(
        int(starts.min()) >= 0, "a window holds a token that is not in the data", of="train"
    )
    pieces = np.take(data, starts.numpy()[:, None] + np.arange(windows.shape[1]), mode="wrap")
    expect.that(
        torch.equal(windows, torch.from_numpy(pieces)),
        "a window is not a piece of the data",
        of="train",
    )
    return starts.tolist()


def targets(windows, data):
    """For each token, the token that follows it in the data."""
    follows = torch.zeros(VOCABULARY, dtype=torch.int64)
    follows[torch.from_numpy(data)] = torch.from_numpy(np.roll(data, -1))
    return follows[windows]


def true_loss(parameters, windows, data):
    """The mean cross-entropy of the next token, in float64."""
    embedding, head = parameters[:2]
    return F.cross_entropy(
        (embedding[windows] @ head.T).flatten(0, 1), targets(windows, data).flatten()
    )


def step_of(got, step):
    """The parameters and gradients with which the optimizer took one step, in float64."""
    steps = got["steps"]
    reason = f"the optimizer stepped {len(steps['parameters'])} times, less often than it should"
    expect.that(step < len(steps["parameters"]), reason, of="train")
    gradients = steps["gradients"][step]
    parameters = [p.double().requires_grad_() for p in steps["parameters"][step]]
    for gradient, p in zip(gradients[:2], parameters, strict=False):
        is_gradient = isinstance(gradient, Tensor) and gradient.shape == p.shape
        expect.that(is_gradient, "a parameter has no gradient when the optimizer steps", of="train")
    return parameters, [g.double() for g in gradients[:2]]


def true_gradients(parameters, windows, data):
    return torch.autograd.grad(true_loss(parameters, windows, data), parameters[:2])


def norm_of(gradients):
    return math.sqrt(sum(float(g.square().sum()) for g in gradients))


def loss_tolerance(parameters, tokens):
    """How far apart two right losses may be in float32.

    A logit is a sum of WIDTH products and at most L = WIDTH · max|e| · max|h|, so its error is at
    most (WIDTH + 1) · eps · L. The log of the sum of exponentials inherits that error and adds
    VOCABULARY · eps and a few eps · L. A loss is the difference of the two, at most 2L +
    log(VOCABULARY); their mean over the batch is rounded once per token.
    """
    largest = [float(p.detach().abs().max()) for p in parameters[:2]]
    logit = WIDTH * largest[0] * largest[1]
    return EPS * (
        2 * (WIDTH + 1) * logit
        + VOCABULARY
        + 4 * logit
        + tokens * (2 * logit + math.log(VOCABULARY))
    )


def gradient_tolerances(parameters, tokens):
    """How far apart an entry of two right gradients may be, for the embedding and for the head.

    Such an entry is a mean of differences of probabilities, each with the relative error of a loss,
    times an entry of the other parameter.
    """
    embedding, head = (float(p.detach().abs().max()) for p in parameters[:2])
    return [2 * largest * loss_tolerance(parameters, tokens) for largest in (head, embedding)]


def check_gradients(got, step, windows, data, *, hint, max_norm=None):
    """Check that the optimizer got the batch's gradients, scaled down to max_norm if longer."""
    parameters, gradients = step_of(got, step)
    expected = true_gradients(parameters, windows, data)
    norm = norm_of(expected)
    scale = 1.0 if max_norm is None else min(1.0, max_norm / norm)
    spared = 1e-6 / norm if scale < 1 else 0.0  # the effect of adding 1e-6 to the norm
    tolerances = gradient_tolerances(parameters, windows.numel())
    for gradient, want, atol in zip(gradients, expected, tolerances, strict=True):
        name = "a gradient with which the optimizer steps"
        rtol = 2 * spared + 8 * EPS
        expect.tensor(
            gradient, want * scale, of="train", atol=atol * scale, rtol=rtol, name=name, hint=hint
        )


# Stays: the other test that insists on floats is about data larger than memory.
@pytest.mark.stage(1)
def test_the_result_holds_floats(student, rng):
    """The lists hold floats, eval_losses maps ints to floats, and a fresh run has first_step 0."""
    result = check_result(trained(student, **run_of(rng, eval_every=2)))
    expect.value(first_step(result), 0, of="train", name="first_step of a fresh run")
    lists = {
        name: result[name]
        for name in ("losses", "learning_rates", "grad_norms")
        if column(result, name, 5)
    }
    expect.that(
        len(eval_losses(result)) > 0, "eval_losses is empty although eval_every is 2", of="train"
    )
    for name, values in (lists | {"eval_losses": result["eval_losses"].values()}).items():
        for value in values:
            reason = f"wrong type in {name}: expected float, got {expect.type_name(value)}"
            expect.that(
                isinstance(value, float), reason, of="train", hint="tensor.item() is a float"
            )


# --- the learning rate


@pytest.mark.stage(1)
@pytest.mark.core
@pytest.mark.points(8)
def test_the_learning_rate_of_each_step(student, rng):
    """Step s, counted from 0, uses lr_cosine_schedule(s, max, min, warmup_steps, steps)."""
    scale = 0.2 + 0.3 * float(torch.rand((), generator=rng))
    for steps, warmup, low, high in [
        (9, 3, 1 / 7, 1),
        (6, 0, 0.0, 1e-8),
        (7, 1, 0.5, 1e-4),
        (5, 2, 0.01, 1e4),
        (3, 3, 0.1, 1),
        (1, 0, 0.1, 1),
    ]:
        high = high * scale
        low = low * high
        low, high = (1, 1) if warmup == steps else (low, high)  # a rate may be an int
        run = run_of(
            rng,
            steps=steps,
            warmup_steps=warmup,
            max_learning_rate=high,
            min_learning_rate=low,
            max_grad_norm=1e-6,
        )
        got = column(trained(student, **with_one_window(run)), "learning_rates", steps)
        for step, lr in enumerate(got):
            if step < warmup:
                want, hint = (
                    high * step / warmup,
                    "the warm-up is linear from 0: step s has max · s / warmup_steps",
                )
            else:
                cosine = math.cos(math.pi * (step - warmup) / (steps - warmup))
                want = low + (high - low) * (1 + cosine) / 2
                hint = (
                    "max at step warmup_steps, then half a cosine that would reach min at "
                    "step `steps`"
                )
            expect.number(
                lr,
                want,
                of="train",
                tolerance=1e-6 * high,
                name=f"the learning rate of step {step}",
                hint=hint,
            )


@pytest.mark.stage(1)
def test_every_group_gets_the_learning_rate(student, rng):
    """The optimizer steps once per step, with that step's learning rate in every group."""
    run = {**with_one_window(run_of(rng, steps=7, warmup_steps=2)), "groups": 2}
    got = trained(student, **run)
    reported, given = column(got, "learning_rates", 7), got["steps"]["learning_rates"]
    expect.that(len(given) == 7, f"the optimizer stepped {len(given)} times in 7 steps", of="train")
    hint = 'group["lr"] = lr for every group of optimizer.param_groups, before optimizer.step()'
    for lr, groups in zip(reported, given, strict=True):
        expect.parts(groups, 2, of="train", name="groups")
        for group in groups:
            expect.kind(group, (float, int), of="train", name="the learning rate of a group")
            reason = "a group steps with a learning rate other than the reported one"
            expect.that(abs(group - lr) <= 1e-6 * lr, reason, of="train", hint=hint)


# --- loss and gradients


# Stays: this test is the plain case; the tests of micro-batches take single steps.
@pytest.mark.stage(1)
@pytest.mark.core
@pytest.mark.points(3)
def test_the_loss_of_each_step(student, rng):
    """`losses` has the mean next-token cross-entropy of each step's batch, before the update."""
    # These scales give losses of about 4, of log(VOCABULARY), and above 1000.
    for scale, steps, seed in [(1.0, 5, 0), (1e-4, 1, 1), (40.0, 1, 2)]:
        run = scaled(run_of(rng, steps=steps, seed=seed), scale, scale)
        got = trained(student, **run)
        losses = column(got, "losses", steps)
        for step, windows in enumerate(batches(got, run)):
            parameters, _ = step_of(got, step)
            want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
            hint = (
                "the target of a token is the next token in the data; take the mean over all "
                "tokens of the batch"
            )
            atol = loss_tolerance(parameters, windows.numel())
            expect.number(
                losses[step],
                want,
                of="train",
                tolerance=atol,
                name=f"the loss of step {step}",
                hint=hint,
            )


def scaled(run, embedding, head):
    """The same run with parameters of other magnitudes."""
    return {
        **run,
        "parameters": [
            p * scale for p, scale in zip(run["parameters"], (embedding, head), strict=True)
        ],
    }


@pytest.mark.stage(1)
@pytest.mark.core
@pytest.mark.points(14)
def test_the_gradients_of_each_step(student, rng):
    """Each step uses only its own batch's gradients, whatever .grad contained before."""
    for gradients_before in (False, True):
        run = run_of(rng, model={"unused": gradients_before})
        got = trained(student, **run, gradients_before=gradients_before)
        for gradients in got["steps"]["gradients"] if gradients_before else []:
            stale = isinstance(gradients[-1], Tensor) and bool(gradients[-1].any())
            reason = "a parameter that the loss does not depend on keeps an older gradient"
            expect.that(not stale, reason, of="train", hint="optimizer.zero_grad() clears them all")
        for step, windows in enumerate(batches(got, run)):
            hint = (
                "the mean cross-entropy over all tokens of the batch, before the parameters change"
            )
            if gradients_before or step > 0:
                hint = "backward adds to .grad: when is it set to zero?"
            check_gradients(got, step, windows, run["train_tokens"], hint=hint)


MICRO_BATCHES = [(7, 3), (3, 1), (4, 9)]


@pytest.mark.stage(2)
@pytest.mark.core
@pytest.mark.points(2)
def test_the_gradients_of_micro_batches(student, rng):
    """Micro-batches give the gradients of the whole batch's mean loss, whatever their sizes."""
    for batch_size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=batch_size, micro_batch_size=micro)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = (
            "weight each micro-batch by its windows: its mean loss times its windows / batch_size"
        )
        check_gradients(got, 0, windows, run["train_tokens"], hint=hint)


# Stays: it looks at the reported loss alone; the tests under autocast would speak of dtypes.
@pytest.mark.stage(2)
def test_the_loss_of_micro_batches(student, rng):
    """With micro-batches the loss is the mean over the whole batch, even if the last is short."""
    for batch_size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=batch_size, micro_batch_size=micro)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        parameters, _ = step_of(got, 0)
        want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
        hint = "take the mean over the batch, with each micro-batch weighted by its windows"
        (loss,) = column(got, "losses", 1)
        atol = loss_tolerance(parameters, windows.numel())
        expect.number(
            loss,
            want,
            of="train",
            tolerance=atol,
            name="the loss of a step in micro-batches",
            hint=hint,
        )


@pytest.mark.stage(2)
def test_micro_batches_are_small(student, rng):
    """At most micro_batch_size windows go through the model at a time, each exactly once.

    This holds for an evaluation, too, if there is one. None is for whole batches.
    """
    for batch_size, micro in [*MICRO_BATCHES, (4, None)]:
        run = run_of(rng, steps=1, batch_size=batch_size, micro_batch_size=micro, eval_every=1)
        run = changed(run, eval_batches=2)
        got = trained(student, **run)
        sizes = [len(got["forwards"]["tokens"][number]) for number in forwards(got, "train")]
        reason = f"{sum(sizes)} windows go through the model in a step with batch_size {batch_size}"
        expect.that(sum(sizes) == batch_size, reason, of="train")
        for which in ("train", "val"):
            largest = max(
                (len(got["forwards"]["tokens"][n]) for n in forwards(got, which)), default=0
            )
            reason = f"{largest} windows go through the model at once with micro_batch_size {micro}"
            where = "x.split(micro_batch_size)" + (" in evaluations, too" if which == "val" else "")
            expect.that(largest <= (micro or batch_size), reason, of="train", hint=where)


# --- clipping


# Scales of embedding and head that give gradients of 1e-8 to 1e4.
MAGNITUDES = [(1.0, 1.0), (1e-8, 1e-8), (1e-4, 1e4), (10.0, 10.0)]


@pytest.mark.stage(2)
def test_norms_before_clipping(student, rng):
    """`grad_norms` has the norm of all gradients together, before any clipping.

    A parameter without a gradient has no part in it, and does not change.
    """
    limits = [(0, False), (None, True), (1, False), (100.0, True)]
    for (max_norm, unused), scales in zip(limits, MAGNITUDES, strict=True):
        run = run_of(
            rng,
            steps=1,
            max_grad_norm=max_norm,
            model={"unused": unused, "frozen": max_norm is None},
            optimizer="AdamW",  # its weight decay changes a parameter whose gradient is 0
            batch_size=1,
            context_length=1,
        )
        run = with_one_window(scaled(run, *scales)) | {"groups": 3 if unused else 1}
        got = trained(student, **run)
        (windows,) = batches(got, run)
        parameters, _ = step_of(got, 0)
        want = norm_of(true_gradients(parameters, windows, run["train_tokens"]))
        (norm,) = column(got, "grad_norms", 1)
        # If each of n entries is wrong by t, the norm is wrong by at most t · √n.
        atol = (
            sum(gradient_tolerances(parameters, 1)) * math.sqrt(VOCABULARY * WIDTH) + 8 * EPS * want
        )
        hint = "the root of the sum of all squares, over all parameters, before any scaling"
        expect.number(
            norm, want, of="train", tolerance=atol, name="the norm of the gradients", hint=hint
        )
        for p in got["parameters"][2:]:
            name, hint = "a parameter without a gradient", "leave its .grad None: no step for it"
            expect.tensor(p, torch.ones(3), of="train", name=name, hint=hint)


# Stays: this test is the plain case, for students who have no micro-batches yet.
@pytest.mark.stage(2)
@pytest.mark.core
@pytest.mark.points(2)
def test_long_gradients_are_clipped(student, rng):
    """Gradients whose norm is above max_grad_norm are scaled down to it, even to 0."""
    cases = [(0.1, (1.0, 1.0)), (1e-4, (1.0, 1.0)), (1.0, (1e-4, 1e4)), (0.0, (1.0, 1.0))]
    for i, (max_norm, scales) in enumerate(cases):
        run = with_one_window(scaled(run_of(rng, steps=1, max_grad_norm=max_norm), *scales))
        run["groups"] = 1 + i % 2  # the groups of an optimizer are clipped together
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = (
            "scale all gradients by the same factor, max_grad_norm / norm, between backward "
            "and step"
        )
        check_gradients(got, 0, windows, run["train_tokens"], max_norm=max_norm, hint=hint)


@pytest.mark.stage(2)
def test_short_gradients_are_not_clipped(student, rng):
    """Gradients stay as they are if their norm is below max_grad_norm or max_grad_norm is None."""
    limits = zip((1000.0, 1e-4, None, None), MAGNITUDES, strict=True)
    for max_norm, scales in [*limits, (0.0, (0.0, 0.0))]:  # at last, gradients of zeros
        run = run_of(rng, steps=1, max_grad_norm=max_norm, batch_size=1, context_length=1)
        run = with_one_window(scaled(run, *scales))
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = "None means no limit, and clipping never makes a gradient longer"
        check_gradients(got, 0, windows, run["train_tokens"], hint=hint)


# Stays: code that clips each micro-batch also reports a wrong norm.
@pytest.mark.stage(2)
def test_clipping_comes_after_all_micro_batches(student, rng):
    """With micro-batches, the gradient of the whole batch is clipped, once."""
    for max_norm in (0.1, 0.3):
        run = run_of(rng, steps=1, batch_size=6, micro_batch_size=2, max_grad_norm=max_norm)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = "first run all micro-batches, then compute the norm, then scale"
        check_gradients(got, 0, windows, run["train_tokens"], max_norm=max_norm, hint=hint)


# --- batches


@pytest.mark.stage(1)
@pytest.mark.points(4)
def test_batches_are_windows_of_the_data(student, rng):
    """The model gets int64 windows of context_length consecutive tokens that have targets."""
    for length, size in [(6, 5), (1, 3), (TRAIN - 1, 2), (TRAIN - 2, 4)]:
        run = run_of(rng, context_length=length, batch_size=size)
        got = trained(student, **run)
        dtypes = {tokens.dtype for tokens in got["forwards"]["tokens"]}
        expect.that(
            dtypes == {torch.int64}, "the model is given tokens that are not int64", of="train"
        )
        late = max(starts_of(torch.cat(batches(got, run)), run["train_tokens"])) + length >= TRAIN
        reason = "the last target of a window would be outside the data"
        expect.that(not late, reason, of="train", hint="the starts are 0 … n - context_length - 1")


@pytest.mark.stage(1)
def test_every_start_is_equally_likely(student, rng):
    """Every start, from the first to the last, is equally likely, whatever other windows have.

    So windows of a batch have the same start as often as chance has it.
    """
    length, share = TRAIN - 9, 1 / 9
    hint = (
        "draw each window's start independently and uniformly from 0 … n - "
        "context_length - 1, both included"
    )
    # Independent draws give 88,667, 96 and 25 pairs on average, and leave these limits less than
    # once in 1e9 runs. Starts drawn from shuffled lists of all starts give 86,800, 0 and 8 pairs,
    # and 0 in a batch of 8 if each batch has a list of its own.
    for size, steps, fewest, most in [
        (400, 10, 87_244, 92_222),
        (9, 24, 47, 180),
        (8, 8, 3, 80),
    ]:
        run = run_of(rng, context_length=length, batch_size=size, steps=steps)
        passes = student.run(probes.passes, **run)
        got = readable({"forwards": passes, "parameters": run["parameters"]}, run)
        starts = [starts_of(windows, run["train_tokens"]) for windows in batches(got, run)]
        draws, pairs = size * steps, 0
        for start in range(9):
            counts = [of_a_step.count(start) for of_a_step in starts]
            pairs += sum(count * (count - 1) // 2 for count in counts)
            fair = abs(sum(counts) / draws - share) < 8 * math.sqrt(share * (1 - share) / draws)
            reason = "one of 9 starts is drawn too rarely or too often"
            expect.that(fair, reason, of="train", hint=hint)
        reason = "two windows of a batch have the same start too rarely or too often"
        expect.that(fewest < pairs < most, reason, of="train", hint=hint)


# Stays: where a batch repeats, the test above would speak of unlikely starts.
@pytest.mark.stage(1)
def test_each_step_has_a_new_batch(student, rng):
    """Batches differ from step to step, and so do the windows within a batch."""
    run = run_of(rng, steps=8, batch_size=32)
    got = trained(student, **run)
    starts = [starts_of(windows, run["train_tokens"]) for windows in batches(got, run)]
    expect.that(
        len({tuple(s) for s in starts}) == 8, "a step has the same batch as another", of="train"
    )
    apart = [{b - a for a, b in itertools.pairwise(s)} for s in starts]
    drawn = all(
        len(set(s)) > 3 and len(between) > 3 for s, between in zip(starts, apart, strict=True)
    )
    expect.that(drawn, "the windows of a batch are not drawn independently", of="train")


@pytest.mark.stage(1)
def test_the_seed_decides(student, rng):
    """The same seed and first weights give equal runs, even with dropout; another seed differs."""
    run = run_of(rng, steps=3, model={"dropout": 0.4}, optimizer="AdamW", batch_size=16)
    # A seed of 0 is a seed, too.
    run = changed(run, seed=0)
    first, again = (trained(student, **run, seed_before=seed) for seed in (1, 2))
    hint = (
        "torch.manual_seed(config.seed) at the start of a fresh run; does it determine the "
        "batches too?"
    )
    same = column(first, "losses", 3) == column(again, "losses", 3)
    expect.that(same, "two runs with the same seed have different losses", of="train", hint=hint)
    name = "a parameter after the second of two runs with the same seed"
    same_parameters(again["parameters"], first["parameters"], name, hint=hint)
    other = trained(student, **changed(run, seed=run["config"]["seed"] + 1))
    differ = not torch.equal(torch.stack(batches(other, run)), torch.stack(batches(first, run)))
    expect.that(
        differ,
        "another seed gives the same batches",
        of="train",
        hint="is config.seed used for the batches?",
    )


@pytest.mark.stage(1)
def test_data_of_any_integer_dtype(student, rng):
    """Tokens may be in a read-only file, in any integer dtype and byte order."""
    for dtype in ("uint16", "uint8", ">i4", "int64", "uint32", ">u2", "int32"):
        run = run_of(rng, steps=1, eval_every=1, seed=0)  # other data with the same config
        got = readable(student.run(probes.trained_on_a_file, dtype=dtype, **run), run)
        (windows,) = batches(got, run)
        starts_of(windows, run["train_tokens"])
        evaluated = evaluations(got, run).get(1)
        if evaluated is not None:  # evaluations are of a later stage
            starts_of(evaluated, run["val_tokens"])
        parameters = [p.double() for p in run["parameters"]]
        want = float(true_loss(parameters, windows, run["train_tokens"]))
        (loss,) = column(got, "losses", 1)
        atol = loss_tolerance(parameters, windows.numel())
        expect.number(loss, want, of="train", tolerance=atol, name=f"the loss on {dtype} tokens")


@pytest.mark.stage(1)
def test_only_the_batches_are_read(student, rng):
    """The data may be far larger than memory: train converts only the windows that it uses.

    The test uses 2**50 tokens, one of which is 40,000: too large for int16.
    """
    own = ("train_tokens", "val_tokens")
    run = {key: value for key, value in run_of(rng, steps=1).items() if key not in own}
    run["parameters"] = [torch.zeros(40_001, 1), torch.zeros(40_001, 1)]
    got, error = student.run(probes.trained_on_endless_data, token=40_000, length=2**50, **run)
    hint = "convert the windows of a batch, not the data"
    expect.that(
        got is not None and error is None,
        f"{error} on data far larger than memory",
        of="train",
        hint=hint,
    )
    tokens = got["tokens"]
    right = len(tokens) > 0 and all(bool((t == 40_000).all()) for t in tokens)
    expect.that(
        right, "a token of uint16 data changed its value", of="train", hint="astype(np.int64)"
    )
    expect.that(len(got["losses"]) == 1, "losses has no float for the only step", of="train")
    want = math.log(40_001)  # all logits are 0
    expect.number(got["losses"][0], want, of="train", tolerance=EPS * 40_001, name="the loss")


# --- evaluation


def evaluations(got, inputs):
    """The windows of each evaluation, by the number of steps before it."""
    found = {}
    for number in forwards(got, "val"):
        tokens = got["forwards"]["tokens"][number].long()
        found.setdefault(got["forwards"]["steps_before"][number], []).append(tokens)
    return {key: torch.cat(parts) for key, parts in found.items()}


@pytest.mark.stage(3)
@pytest.mark.points(2)
def test_the_loss_of_an_evaluation(student, rng):
    """eval_losses[s + 1] is the mean loss on val_tokens with the parameters after step s."""
    # In the shortest data, only one window has targets.
    for every, count, micro, length in [(2, 3, None, VAL), (3, 2, 3, VAL), (3, 1, 3, 7)]:
        run = run_of(rng, steps=7, eval_every=every, eval_batches=count, micro_batch_size=micro)
        run["val_tokens"] = run["val_tokens"][:length]
        got = trained(student, **run)
        keys, losses, windows = (
            list(range(every, 8, every)),
            eval_losses(got),
            evaluations(got, run),
        )
        hint = (
            "evaluate after step s, counted from 0, if s + 1 is a multiple of eval_every; "
            "the key is s + 1"
        )
        expect.value(sorted(losses), keys, of="train", name="the keys of eval_losses", hint=hint)
        parameters = [
            [p.double() for p in row] for row in [*got["steps"]["parameters"], got["parameters"]]
        ]
        expect.that(len(parameters) == 8, "the optimizer did not step once per step", of="train")
        for key in keys:
            hint = (
                "evaluate after optimizer.step(); take the mean over eval_batches "
                "batches of batch_size windows, in which each window has the same weight"
            )
            expect.that(
                key in windows,
                "no validation tokens went through the model after a step",
                of="train",
                hint=hint,
            )
            reason = f"an evaluation of {count} batches has {len(windows[key])} windows"
            expect.that(len(windows[key]) == count * 4, reason, of="train", hint=hint)
            want = float(true_loss(parameters[key], windows[key], run["val_tokens"]))
            atol = loss_tolerance(parameters[key], windows[key].numel())
            expect.number(
                losses[key], want, of="train", tolerance=atol, name=f"eval_losses[{key}]", hint=hint
            )


@pytest.mark.stage(3)
def test_every_evaluation_uses_the_same_batches(student, rng):
    """All evaluations of a run use the same eval_batches batches, which differ from each other."""
    run = run_of(rng, steps=3, batch_size=8, context_length=3, eval_every=1, eval_batches=8)
    windows = evaluations(trained(student, **run), run)
    expect.that(len(windows) == 3, "no evaluation where one is due", of="train")
    hint = "draw them only once, or each time from the same seed"
    starts = [sorted(starts_of(found, run["val_tokens"])) for found in windows.values()]
    late = max(map(max, starts)) + run["config"]["context_length"] >= VAL
    reason = "the last target of a validation window would be outside the data"
    expect.that(not late, reason, of="train", hint="the starts are 0 … n - context_length - 1")
    expect.that(
        all(s == starts[0] for s in starts),
        "two evaluations use different batches",
        of="train",
        hint=hint,
    )
    counts = [starts[0].count(start) for start in set(starts[0])]
    # By chance this happens less than once in 1e17 runs.
    again = all(count % 8 == 0 for count in counts)
    expect.that(
        not again,
        "an evaluation uses the same batch again and again",
        of="train",
        hint="use eval_batches different batches",
    )


@pytest.mark.stage(3)
def test_modes_of_training_and_evaluation(student, rng):
    """Evaluation runs in eval mode, without gradients, and gives each submodule its mode back."""
    hint = "model.eval() before an evaluation, and each submodule's own mode after it"
    run, losses = run_of(rng, eval_every=2, steps=4, eval_batches=2), []
    for before in ({}, {"eval_before": True}, {"asleep": True}):
        got = trained(student, **run, **before)
        losses.append(column(got, "losses", 4))
        same = losses[-1] == losses[0]  # the dropout is 0
        expect.that(same, "a run depends on the mode of the given model", of="train", hint=hint)
        seen = got["forwards"]
        training, evaluation = forwards(got, "train"), forwards(got, "val")
        expect.that(len(evaluation) > 0, "no validation tokens went through the model", of="train")
        expect.that(len(training) > 0, "no training tokens went through the model", of="train")
        modes = [seen["modes"][number] for number in training]
        expect.that(
            before or modes[0] == "training",
            "the model was in training mode and does not train in it",
            of="train",
            hint=hint,
        )
        # A model that comes in another mode keeps it, or gets the training mode.
        reason = "a submodule has another mode after an evaluation than before"
        same = {*modes, got["mode"]} == {modes[0]}
        expect.that(same, reason, of="train", hint=hint)
        modes = {seen["modes"][number] for number in evaluation}
        expect.that(
            modes == {"eval"}, "an evaluation does not run in eval mode", of="train", hint=hint
        )
        without = not any(seen["grad_enabled"][number] for number in evaluation)
        expect.that(without, "an evaluation records gradients", of="train", hint="torch.no_grad()")


def check_undisturbed(student, run, hint):
    """Check that training with evaluations is bit for bit training without them."""
    without = trained(student, **changed(run, eval_every=0))
    expected = column(without, "losses", 5)
    for every, count in [(1, 3), (2, 1)]:
        got = trained(student, **changed(run, eval_every=every, eval_batches=count))
        expect.that(
            len(forwards(got, "val")) > 0, "no validation tokens went through the model", of="train"
        )
        same = column(got, "losses", 5) == expected
        expect.that(
            same,
            "training losses change when there are evaluations in between",
            of="train",
            hint=hint,
        )
        same_parameters(
            got["parameters"],
            without["parameters"],
            "a parameter after a run with evaluations",
            hint=hint,
        )


# Stays: this test is the plain case; the next test requires more.
@pytest.mark.stage(3)
def test_evaluation_changes_no_training(student, rng):
    """Evaluation changes nothing in training, bit for bit: batches, dropout and optimizer."""
    run = run_of(rng, model={"dropout": 0.4}, optimizer="AdamW", max_grad_norm=0.1)
    check_undisturbed(
        student, run, "does an evaluation draw from the generator that training draws from?"
    )


@pytest.mark.stage(3)
def test_evaluation_puts_the_random_state_back(student, rng):
    """Evaluation does not affect training even if the model draws random numbers in eval mode."""
    run = run_of(rng, model={"noise": 0.1})
    check_undisturbed(
        student,
        run,
        "use torch.random.fork_rng, or get_rng_state and set_rng_state, around the evaluation",
    )


# --- lower precision, and losses that are not finite


@pytest.mark.stage(2)
def test_autocast_keeps_float32(student, rng):
    """Under autocast, logits have its dtype; parameters, gradients and state keep theirs."""
    for dtype, micro, own in [
        (torch.bfloat16, None, torch.float32),
        (torch.float16, 3, torch.float32),
        (None, 3, torch.float64),
    ]:
        run = run_of(rng, steps=2, autocast_dtype=dtype, micro_batch_size=micro, optimizer="AdamW")
        run["parameters"] = [p.to(own) for p in run["parameters"]]
        got = trained(student, **run, watch={"keep_logits": True})
        losses = column(got, "losses", 2)
        hint = (
            "use torch.autocast(device_type, dtype=...) around forward and loss, and do not "
            "convert the model"
        )
        dtypes = {x.dtype for x in got["forwards"]["logits"]}
        wanted = own if dtype is None else dtype
        expect.that(dtypes == {wanted}, "logits do not have autocast_dtype", of="train", hint=hint)
        kept = {
            "parameters": [got["parameters"], *got["steps"]["parameters"]],
            "gradients": got["steps"]["gradients"],
        }
        # A count of steps and two moments for each parameter.
        expect.parts(got["state_dtypes"], 3 * len(run["parameters"]), of="train", name="states")
        kept["the optimizer's state"] = [
            [torch.empty(0, dtype=dtype) for dtype in got["state_dtypes"]]
        ]
        for name, rows in kept.items():
            found = {x.dtype for row in rows for x in row if isinstance(x, Tensor)}
            # torch counts AdamW's steps in float32.
            found -= (
                {torch.float32} if len(found) > 1 and name == "the optimizer's state" else set()
            )
            expect.that(found == {own}, f"{name} do not keep their dtype", of="train", hint=hint)
        if dtype is None:
            (parameters, _), windows = step_of(got, 1), batches(got, run)[1]
            want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
            atol, name = loss_tolerance(parameters, windows.numel()), "a loss in float64"
            expect.number(losses[1], want, of="train", tolerance=atol, name=name)


@pytest.mark.stage(2)
def test_the_loss_under_autocast(student, rng):
    """Under bfloat16 autocast, the cross-entropy is computed in float32, as autocast does."""
    run = run_of(rng, steps=8, autocast_dtype=torch.bfloat16, max_learning_rate=5.0)
    got = trained(student, **run, watch={"keep_logits": True})
    losses = column(got, "losses", 8)
    for step, windows in enumerate(batches(got, run)):
        logits = logits_of(got, step)
        reason = "train does not use the model's logits unchanged"
        expect.that(logits.shape == (*windows.shape, VOCABULARY), reason, of="train")
        (embedding, head), _ = step_of(got, step)
        # Each factor, each product, each sum and the result are rounded to 8 bits.
        most = (WIDTH + 3) * 2**-8 * (embedding.abs()[windows] @ head.abs().T)
        hint = "leave autocast before the optimizer steps: inside, it keeps copies of parameters"
        reason = "the forward pass of a step does not use the parameters as they are then"
        right = bool(((logits - embedding[windows] @ head.T).abs() <= most).all())
        expect.that(right, reason, of="train", hint=hint)
        want = F.cross_entropy(
            logits.flatten(0, 1), targets(windows, run["train_tokens"]).flatten()
        )
        # Since the logits are given, only the log of a sum of exponentials and a mean are rounded.
        atol = EPS * (VOCABULARY + windows.numel() + 8 * (1 + float(logits.abs().max())))
        hint, name = (
            "compute the loss inside autocast too",
            f"the loss of step {step}, given its logits",
        )
        expect.number(losses[step], float(want), of="train", tolerance=atol, name=name, hint=hint)


def logits_of(got, step):
    """The model's logits for the training windows of a step, in float64."""
    asked = got["forwards"]
    expect.that(len(asked["logits"]) == len(asked["tokens"]), "logits without tokens", of="train")
    return torch.cat(
        [
            asked["logits"][n].double()
            for n in forwards(got, "train")
            if asked["steps_before"][n] == step
        ]
    )


@pytest.mark.stage(3)
def test_evaluation_under_autocast(student, rng):
    """Evaluation runs under the same autocast as training: none if autocast_dtype is None."""
    for dtype, logits in [(torch.bfloat16, torch.bfloat16), (None, torch.float32)]:
        run = run_of(rng, autocast_dtype=dtype, eval_every=2)
        got = trained(student, **run, watch={"keep_logits": True})
        found = {
            got["forwards"]["logits"][n].dtype
            for n in forwards(got, "val")
            if n < len(got["forwards"]["logits"])
        }
        expect.that(
            found == {logits}, "an evaluation does not run under the requested autocast", of="train"
        )


@pytest.mark.stage(1)
@pytest.mark.points(2)
def test_a_loss_that_is_no_number_ends_the_run(student, rng):
    """On a NaN or infinite loss, FloatingPointError is raised before the optimizer steps.

    The loss of an evaluation may be NaN.
    """
    step = integer(rng, 2, 5)
    run = run_of(rng, steps=6)
    with expect.right_call("a run without a NaN"):
        column(trained(student, **run), "losses", 6)
    cases = [(False, None, None), (True, None, None), (False, 3, 0), (False, 3, 1)]
    for infinite, micro, only in cases:
        watch = {"break_at": step, "infinite": infinite, "break_only": only}
        got = trained(student, **changed(run, micro_batch_size=micro), watch=watch)
        hint = "math.isfinite(loss), between the loss and optimizer.step()"
        kind = "infinite" if infinite else "NaN"
        expect.that(
            got["error"] is not None,
            f"no FloatingPointError although a loss is {kind}",
            of="train",
            hint=hint,
        )
        taken = len(got["steps"]["parameters"])
        expect.that(
            taken == step, f"the optimizer steps although the loss is {kind}", of="train", hint=hint
        )
    run = changed(run, steps=2, eval_every=2)
    got = trained(student, **run, watch={"break_at": 2})  # only an evaluation comes after 2 steps
    reason = "FloatingPointError although only the loss of an evaluation is NaN"
    expect.that(got["error"] is None, reason, of="train")


# --- checkpoints


def same_parameters(got, expected, name, *, hint=None):
    """Check that parameters are equal bit for bit."""
    expect.that(len(got) == len(expected), "the number of parameters has changed", of="train")
    for p, want in zip(got, expected, strict=True):
        expect.tensor(p, want, of="train", name=name, hint=hint)


def check_killed(student, run, kill_at):
    """Kill a run in these forward passes, resume it, and check that it ends like an uninterrupted
    run.
    """
    config = {"checkpoint_path": "checkpoint", "checkpoint_every": 2, **run["config"]}
    steps, every = config["steps"], config["checkpoint_every"]
    got = student.run(probes.killed, kill_at=kill_at, **{**run, "config": config})
    whole = readable(got["whole"], run)
    steps_before, evaluation = whole["forwards"]["steps_before"], forwards(whole, "val")
    expect.that(len(steps_before) > max(kill_at), "fewer forward passes than steps", of="train")
    for number, result, parameters in zip(kill_at, got["results"], got["parameters"], strict=True):
        at = steps_before[number]
        when = f"killed in a forward pass after {at} steps and resumed, "
        first = first_step(result)
        # If an evaluation and a checkpoint are due after the same step, either may come first.
        allowed = {at - at % every} | (
            {at - 1 - (at - 1) % every} if number in evaluation else set()
        )
        hint = (
            "save a checkpoint after step s if s + 1 is a multiple of checkpoint_every; the "
            "step in it is s + 1"
        )
        expect.that(first in allowed, when + f"it starts at step {first}", of="train", hint=hint)
        hint = "what state does a step depend on that the checkpoint does not contain?"
        for name in ("losses", "learning_rates", "grad_norms"):
            same = column(result, name, steps - first) == column(whole, name, steps)[first:]
            expect.that(
                same,
                when + f"{name} differ from those of a run that was not killed",
                of="train",
                hint=hint,
            )
        name = "a parameter at the end of a run that was killed and resumed"
        same_parameters(parameters, whole["parameters"], name, hint=hint)


# Stays: this test judges resuming alone, so code that loses AdamW's state or the schedule keeps
# these points.
@pytest.mark.stage(4)
@pytest.mark.core
@pytest.mark.points(12)
def test_a_killed_run_goes_on_from_its_checkpoint(student, rng):
    """A killed SGD run resumes from its last checkpoint and ends bit-equal to one never killed."""
    check_killed(student, run_of(rng, steps=6, min_learning_rate=0.5), kill_at=[1, 2, 5])


@pytest.mark.stage(4)
@pytest.mark.core
@pytest.mark.points(10)
def test_optimizer_and_schedule_go_on_after_a_kill(student, rng):
    """A resumed run also ends bit-equal with AdamW, warm-up, cosine, clipping and evaluations."""
    run = run_of(rng, optimizer="AdamW", steps=6, warmup_steps=2, max_grad_norm=0.1, eval_every=3)
    # Whether train() calls model.train() or not, it does so in the resumed run as well.
    run |= {"model": {"dropout": 0.5}, "eval_before": True}
    check_killed(student, run, kill_at=[3, 4, 6])  # pass 3 belongs to an evaluation


@pytest.mark.stage(4)
@pytest.mark.core
@pytest.mark.points(6)
def test_dropout_goes_on_after_a_kill(student, rng):
    """With dropout, a resumed run restores the random state and ends bit-equal too."""
    run = run_of(rng, model={"dropout": 0.5}, steps=4, min_learning_rate=0.5, checkpoint_every=1)
    run["parameters"] = [p.double() / 3 for p in run["parameters"]]  # float32 lacks these numbers
    check_killed(student, run, kill_at=[1, 3])


@pytest.mark.stage(4)
def test_evaluations_go_on_after_a_kill(student, rng):
    """After a resume, the remaining evaluations give the same losses as without the kill."""
    run = run_of(rng, steps=6, checkpoint_every=1, checkpoint_path="checkpoint", eval_every=2)
    # A buffer, like those of BatchNorm, and random numbers that are too small to change a logit.
    run["model"] = {"average": True, "noise": 1e-30}
    # The kill is in step 3; an evaluation comes between steps 1 and 2.
    got = student.run(probes.killed, kill_at=[4], **run)
    expect.that(len(got["results"]) == 1, "not every run returned a result", of="train")
    whole, again, first = (
        eval_losses(got["whole"]),
        eval_losses(got["results"][0]),
        first_step(got["results"][0]),
    )
    left = [key for key in (2, 4, 6) if key > first]
    hint = (
        "evaluate if s + 1 is a multiple of eval_every, where s counts from the start of the "
        "whole run"
    )
    expect.value(
        sorted(again),
        left,
        of="train",
        name=f"the keys of eval_losses after a resume at step {first}",
        hint=hint,
    )
    for key, loss in again.items():
        hint = "does the checkpoint contain the model's buffers, and are the batches the same?"
        reason = "an evaluation after a resume gives a different loss"
        expect.that(whole.get(key) == loss, reason, of="train", hint=hint)


@pytest.mark.stage(4)
@pytest.mark.points(2)
def test_killed_while_it_writes_a_checkpoint(student, rng):
    """A run killed while it writes or replaces a checkpoint resumes from a complete one.

    So a run that is killed later never resumes from an earlier step.
    """
    run = run_of(
        rng, steps=4, min_learning_rate=0.5, checkpoint_every=2, checkpoint_path="checkpoint"
    )
    run["parameters"] = [torch.randn(600, WIDTH, generator=rng) for _ in range(2)]
    whole, again = student.run(probes.killed_while_writing, kill_at=3, **run)
    hint = "write to a temporary file next to it, and call os.replace once it is complete"
    first = first_step(again)
    expect.that(first >= 2, "the previous checkpoint is lost", of="train", hint=hint)
    same = column(again, "losses", 4 - first) == column(whole, "losses", 4)[first:]
    expect.that(
        same,
        "it ends with different losses than a run that was never killed",
        of="train",
        hint=hint,
    )
    run = run_of(rng, steps=2, checkpoint_every=1, checkpoint_path="checkpoint")
    first_steps = [
        first_step(killed["result"]) for killed in student.run(probes.killed_at_each_change, **run)
    ]
    expect.that(len(first_steps) > 0, "no killed run could be resumed", of="train")
    reason = "killed while it replaces a checkpoint and resumed, it starts at an earlier step"
    expect.that(first_steps == sorted(first_steps), reason, of="train", hint=hint)


@pytest.mark.stage(4)
def test_a_finished_run_is_not_run_again(student, rng):
    """A checkpoint is saved after the last step too; a finished run, if restarted, takes no step.

    The restarted run has the final parameters.
    """
    for every in (0, 4):
        run = run_of(rng, steps=6, checkpoint_path="checkpoint", checkpoint_every=every)
        anew = {"parameters": [torch.zeros_like(p) for p in run["parameters"]]}
        done, _ = student.run(probes.one_after_the_other, runs=[{}, anew], **run)
        expect.that(len(done) == 2, "not every run returned a result", of="train")
        column(done[0], "losses", 6)
        hint = (
            "save a checkpoint after the last step too, even if checkpoint_every does not divide it"
        )
        first = first_step(done[1])
        expect.that(
            first == 6,
            f"restarted after its last step, it begins with step {first}",
            of="train",
            hint=hint,
        )
        column(done[1], "losses", 0)
        name = "a parameter after a finished run was started again"
        expect.parts(done[0]["parameters"], len(run["parameters"]), of="train", name="parameters")
        same_parameters(done[1]["parameters"], done[0]["parameters"], name, hint=hint)


# --- the log


def check_log(rows, steps):
    """Check that the log has one line per step, in order, without duplicates."""
    for row in rows:
        whole = isinstance(row, list) and len(row) == 4
        expect.that(whole, "a line of the log is not a JSON object", of="train", hint="json.dumps")
    reason = "the log does not contain one line per step, in order"
    hint = (
        'the key "step" counts from 0; on a resume, cut off the lines of steps that will run again'
    )
    expect.that([row[0] for row in rows] == list(range(steps)), reason, of="train", hint=hint)


@pytest.mark.stage(3)
def test_one_line_a_step(student, rng):
    """Each step logs a JSON line (step, loss, lr, grad_norm); a fresh run starts a new log."""
    run = run_of(rng, log_path="log", warmup_steps=2, max_grad_norm=0.1, eval_every=2)
    runs = [changed(run, steps=steps, seed=steps) for steps in (6, 4)]
    done, logs = student.run(probes.one_after_the_other, runs=runs)
    expect.that(len(done) == len(logs) == 2, "a run did not return a result", of="train")
    for got, rows, steps in zip(done, logs, (6, 4), strict=True):
        check_log(rows, steps)
        for place, name in enumerate(("losses", "learning_rates", "grad_norms"), start=1):
            reason = f"{probes.KEYS[place]} in the log differs from {name} in the result"
            expect.that(
                [row[place] for row in rows] == column(got, name, steps), reason, of="train"
            )


@pytest.mark.stage(3)
def test_a_step_that_is_not_taken_is_not_in_the_log(student, rng):
    """A run that ends with FloatingPointError has logged only the steps before that one."""
    run = run_of(rng, log_path="log")
    _, logs = student.run(probes.one_after_the_other, runs=[{"watch": {"break_at": 3}}], **run)
    check_log(logs[-1] if logs else [], 3)


# Stays: without this test, a student would read about missing lines after a resume, which is a
# different problem.
@pytest.mark.stage(3)
def test_each_line_is_written_at_once(student, rng):
    """A run that is killed has already logged every step that it took."""
    kills = [1, 4]  # the forward pass of step s is number s
    got = student.run(probes.killed, kill_at=kills, again=False, **run_of(rng, log_path="log"))
    expect.that(
        len(got["lines_when_killed"]) == len(kills), "not every run returned a result", of="train"
    )
    for taken, lines in zip(kills, got["lines_when_killed"], strict=True):
        hint = "flush after every line, or close the file"
        expect.that(
            lines == taken,
            f"killed after {taken} steps, the log has {lines} lines",
            of="train",
            hint=hint,
        )


# Stays: this test really kills a run; the test below only makes the log look as if a run was
# killed.
@pytest.mark.stage(4)
def test_no_line_twice_after_a_kill(student, rng):
    """After a kill at any moment and a resume the log has one line per step.

    A line may be written before or after the checkpoint of its step, or with it. A run that has
    resumed may be killed again, before it has taken a step.
    """
    run = run_of(rng, steps=3, log_path="log", checkpoint_every=2, checkpoint_path="checkpoint")
    killed = student.run(probes.killed_at_each_change, **run)
    expect.that(len(killed) >= 3, "the log does not grow with each step", of="train")
    for again in killed:
        check_log(again["log"], 3)
    got = student.run(probes.killed, kill_at=[2], twice=True, **run)
    expect.that(len(got["logs"]) == 1, "not every run returned a result", of="train")
    check_log(got["logs"][0], 3)


@pytest.mark.stage(4)
def test_a_line_that_was_not_finished(student, rng):
    """An unfinished last line in the log is cut off when the run resumes."""
    run = run_of(rng, steps=6, log_path="log", checkpoint_every=2, checkpoint_path="checkpoint")
    leave = [
        '{"step": 4, "loss": 2.',
        '{"step": 4, "loss": 2.5, "lr": 0.1, "grad_norm": 0.5}',
        '{"st',
    ]
    got = student.run(probes.killed, kill_at=[4, 4, 4], leave=leave, **run)
    expect.that(len(got["logs"]) == 3, "not every run returned a result", of="train")
    for rows in got["logs"]:
        check_log(rows, 6)


# --- all of it together


# Stays: the tests above look at single steps; this one shows a student what the steps achieve
# together, and how close the run came.
@pytest.mark.stage(1)
@pytest.mark.points(2)
def test_it_learns_a_known_language(student, rng):
    """On text of known entropy, a bigram model's loss gets within 0.05 nats per token of it."""
    chain = torch.softmax(2 * torch.randn(6, 6, generator=rng, dtype=torch.float64), dim=1)
    run = run_of(rng, optimizer="AdamW", steps=60, batch_size=32, context_length=16, warmup_steps=5)
    run = changed(run, max_learning_rate=0.1, min_learning_rate=0.001, max_grad_norm=1.0)
    run["parameters"] = [torch.randn(6, 6, generator=rng) * 0.1 for _ in range(2)]
    run["train_tokens"] = text_of(chain, 4000, rng)
    got = readable(student.run(probes.trained_on_a_file, dtype="uint16", **run), run)
    embedding, head = (p.double() for p in got["parameters"])
    entropy, reached = (
        loss_on_average(chain, p) for p in (chain, torch.softmax(embedding @ head.T, dim=1))
    )
    facts = [
        ("reached", f"{reached:.3f} nats per token"),
        ("possible", f"{entropy:.3f}, required {entropy + 0.05:.3f}"),
    ]
    expect.that(
        reached <= entropy + 0.05,
        "after 60 steps the model is far from the best possible loss",
        of="train",
        facts=facts,
    )


def text_of(chain, length, rng):
    """Draw tokens from a Markov chain: row i of `chain` contains the probabilities of the token
    after i.
    """
    limits = chain.cumsum(dim=1).tolist()
    draws = torch.rand(length, generator=rng, dtype=torch.float64).tolist()
    tokens = [0]
    for draw in draws[1:]:
        row = limits[tokens[-1]]
        tokens.append(sum(draw >= limit for limit in row[:-1]))
    return np.array(tokens)


def loss_on_average(chain, predicted):
    """The mean cross-entropy of `predicted` over endless text of the chain.

    If `predicted` is the chain itself, this is the entropy.
    """
    weights = torch.linalg.matrix_power(chain, 1024)[0]  # how often each token occurs
    return float((weights[:, None] * chain * -predicted.log()).sum())


# --- wrong calls


@pytest.mark.stage(1)
def test_wrong_calls_are_refused(student, rng):
    """Too little data, missing val_tokens and a missing checkpoint_path are errors."""
    run = run_of(rng, eval_every=2)
    with expect.right_call("context_length one less than the number of tokens"):
        column(
            trained(student, **changed(run, context_length=TRAIN - 1, eval_every=0)), "losses", 5
        )
    with expect.raises(TOO_SHORT, of="train", when="context_length is the number of train_tokens"):
        trained(student, **changed(run, context_length=TRAIN, eval_every=0))
    hint = "check before the first step"
    run["watch"] = {"break_at": 0}  # a run that takes a step ends with another error
    for every, tokens in [(10, None), (2, run["val_tokens"][:6])]:  # a run has 5 steps
        with expect.raises(
            ValueError, of="train", when="val_tokens are missing or short", hint=hint
        ):
            trained(student, **{**changed(run, eval_every=every), "val_tokens": tokens})
    with expect.raises(ValueError, of="train", when="checkpoint_path is missing", hint=hint):
        trained(student, **changed(run, eval_every=0, checkpoint_every=2))
