"""training_loop: what each step does, what a run returns, and how it resumes after a kill.

Accepted on purpose: batches from any generator that the seed determines, because the tests record
the batches that the model is given and compute loss, gradients and norms of those in float64;
micro-batches of any sizes up to the given one, in any order; gradients set to None or to zero,
before or after a step; scaling by max/norm or max/(norm + 1e-6); a loss and a schedule computed in
float32 or float64; evaluations before or after the checkpoint of that step, in whole batches or
in parts; any checkpoint format, and any temporary file next to it; additional keys in the log.

Where windows are not the subject, the data alternate between two tokens, and a window has an even
number of them. All batches then have the same loss and gradients however they are drawn, so that
mistakes can be named. Elsewhere all tokens are different, so a token identifies its position. No
training token occurs in the validation data. Most rules are judged separately, from the parameters
that the student's own run had before a step. Runs that are killed or evaluated are compared bit
for bit with the student's own uninterrupted run.
"""

import math
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.hidden import ExpectOf
from tests.probes import training as probes

expect = ExpectOf("train")

EPS = torch.finfo(torch.float32).eps
TRAIN, VAL, WIDTH = 23, 17, 5
VOCABULARY = TRAIN + VAL
DEFAULTS = {"steps": 5, "batch_size": 4, "context_length": 6, "max_grad_norm": None}
DEFAULTS |= {"max_learning_rate": 0.5, "min_learning_rate": 0.1, "warmup_steps": 0}


def run_of(rng, *, model=None, optimizer="SGD", **config):
    """The inputs of a run: a model, and tokens, 0 … 22 (train) and 23 … 39 (val), two of each."""
    train = torch.randperm(TRAIN, generator=rng).numpy()
    val = torch.randperm(VAL, generator=rng).numpy() + TRAIN
    return {
        "parameters": [torch.randn(VOCABULARY, WIDTH, generator=rng) * 0.6 for _ in range(2)],
        "config": {**DEFAULTS, **config},
        "train_tokens": np.tile(train[:2], 20),
        "val_tokens": np.tile(val[:2], 20),
        "model": model or {},
        "optimizer": optimizer,
    }


def with_positions(rng, run):
    return {
        **run,
        "train_tokens": torch.randperm(TRAIN, generator=rng).numpy(),
        "val_tokens": torch.randperm(VAL, generator=rng).numpy() + TRAIN,
    }


IN_ORDER = {"in_order": True}


def changed(inputs, **config):
    return {**inputs, "config": {**inputs["config"], **config}}


def scaled(run, embedding, head):
    first, second = run["parameters"]
    return {**run, "parameters": [first * embedding, second * head]}


def trained(student, probe=probes.trained, **run):
    """One run of the student's code, as the probe recorded it."""
    return readable(student.run(probe, **run), run)


def readable(got, run):
    """Check that a run's records fit together, so that tests may index, add and compare them."""
    asked, steps = got["forwards"], got["steps"]
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
    expect.that(fit, "train does not use the model or the optimizer as intended")
    return got


# --- what came back


def check_result(got):
    result = got["result"]
    expect.that(not got["stopped"], "FloatingPointError although every loss is finite")
    expect.that(result is not None, "returned None: is a `return` missing?")
    is_result = isinstance(result, dict) and set(result) == set(probes.FIELDS)
    expect.that(is_result, f"expected a TrainResult, got {result}")
    return result


def column(got, name, count):
    """Check that one of the result's lists contains `count` finite numbers, and return it.

    Another test judges whether they are floats.
    """
    values = check_result(got)[name]
    expect.kind(values, list, name=name)
    reason = f"{name} has {len(values)} entries for {count} steps"
    expect.that(len(values) == count, reason, hint="one entry for each step of this call")
    return [finite(value, name) for value in values]


def finite(value, name):
    """A number from a result, which may be a tensor of one element."""
    value = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    expect.kind(value, (float, int), name=f"an entry of {name}")
    number = float(value)
    expect.that(math.isfinite(number), f"an entry of {name} is {number}")
    return number


def first_step(got):
    first = check_result(got)["first_step"]
    expect.kind(first, int, name="first_step")
    return first


def eval_losses(got):
    """The result's evaluations, as a dict from the number of steps taken to the loss."""
    losses = check_result(got)["eval_losses"]
    expect.kind(losses, dict, name="eval_losses")
    for key in losses:
        expect.kind(key, int, name="a key of eval_losses")
    return {key: finite(loss, "eval_losses") for key, loss in losses.items()}


def evaluated_when_due(got, run):
    """The evaluations by the steps taken, if they are of the steps that eval_every divides."""
    losses, every = eval_losses(got), run["config"].get("eval_every", 0)
    keys = [done for done in range(1, run["config"]["steps"] + 1) if every and done % every == 0]
    hint = "evaluate after step s, counted from 0, if eval_every divides s + 1: the key"
    expect.value(sorted(losses), keys, name="the keys of eval_losses", hint=hint)
    return losses


def forwards(got, which):
    """The indices of the forward passes on "train" or "val" data."""
    chosen = []
    for number, tokens in enumerate(got["forwards"]["tokens"]):
        of_training = (tokens < TRAIN).float().mean().item()
        expect.that(of_training in (0, 1), "a batch mixes training and validation tokens")
        chosen += [number] if of_training == (which == "train") else []
    return chosen


def passes_of(got, step):
    """The indices of the forward passes on training data in a step."""
    return [n for n in forwards(got, "train") if got["forwards"]["steps_before"][n] == step]


def passes(got, step):
    return [got["forwards"]["tokens"][number].long() for number in passes_of(got, step)]


def batches(got, inputs):
    """The windows of each step as a (batch_size, context_length) tensor."""
    config = inputs["config"]
    return [batch(passes(got, step), config) for step in range(config["steps"])]


def batch(parts, config):
    hint = "one optimizer.step for each batch"
    expect.that(len(parts) > 0, "a step has no training batch", hint=hint)
    whole = {part.shape[1] for part in parts} == {config["context_length"]}
    expect.that(whole, "a window is not context_length tokens long")
    windows = torch.cat(parts)
    reason = f"{len(windows)} windows in a step with batch_size {config['batch_size']}"
    hint = "each of them goes through the model once"
    expect.that(len(windows) == config["batch_size"], reason, hint=hint)
    return windows


def starts_of(windows, data):
    """Where in data of different tokens each window begins, if it has targets."""
    places = torch.full((VOCABULARY,), -1)
    places[torch.from_numpy(data)] = torch.arange(len(data))
    starts = places[windows[:, 0]]
    expect.that(int(starts.min()) >= 0, "a window holds a token that is not in the data")
    reason = "the last target of a window would be outside the data"
    inside = int(starts.max()) + windows.shape[1] < len(data)
    expect.that(inside, reason, hint="the starts are 0 … n - context_length - 1")
    pieces = data[starts.numpy()[:, None] + np.arange(windows.shape[1])]
    reason = "a window is not a piece of the data"
    expect.that(torch.equal(windows, torch.from_numpy(pieces)), reason)
    return starts.tolist()


def targets(windows, data):
    """For each token, the token that follows it in the data."""
    follows = torch.zeros(VOCABULARY, dtype=torch.int64)
    follows[torch.from_numpy(data)] = torch.from_numpy(np.roll(data, -1))
    return follows[windows]


def true_loss(parameters, windows, data, loudness=1):
    """The mean cross-entropy of the next token, in float64."""
    embedding, head = parameters[:2]
    logits = loudness * (embedding[windows] @ head.T)
    return F.cross_entropy(logits.flatten(0, 1), targets(windows, data).flatten())


def loss_of_parts(parameters, parts, data):
    """The loss of a batch whose forward passes get louder, in float64."""
    count = sum(map(len, parts))
    losses = [true_loss(parameters, part, data, number) for number, part in enumerate(parts, 1)]
    return sum(loss * len(part) / count for loss, part in zip(losses, parts, strict=True))


def step_of(got, step):
    """The parameters and gradients with which the optimizer took one step, in float64."""
    steps = got["steps"]
    reason = f"the optimizer stepped {len(steps['parameters'])} times, less often than it should"
    expect.that(step < len(steps["parameters"]), reason)
    gradients = steps["gradients"][step]
    parameters = [p.double().requires_grad_() for p in steps["parameters"][step]]
    for gradient, p in zip(gradients[:2], parameters, strict=False):
        is_gradient = isinstance(gradient, Tensor) and gradient.shape == p.shape
        expect.that(is_gradient, "a parameter has no gradient when the optimizer steps")
    return parameters, [g.double() for g in gradients[:2]]


def norm_of(gradients):
    return math.sqrt(sum(float(g.square().sum()) for g in gradients))


def loss_tolerance(parameters, tokens, loudness=1):
    """How far apart two right losses may be in float32.

    A logit is a sum of WIDTH products and at most L = WIDTH · max|e| · max|h|, so its error is at
    most (WIDTH + 1) · eps · L. The log of the sum of exponentials inherits that error and adds
    VOCABULARY · eps and a few eps · L. A loss is the difference of the two, at most 2L +
    log(VOCABULARY); their mean over the batch is rounded once per token.
    """
    largest = [float(p.detach().abs().max()) for p in parameters[:2]]
    logit = WIDTH * largest[0] * largest[1] * loudness
    return EPS * (
        2 * (WIDTH + 1) * logit
        + VOCABULARY
        + 4 * logit
        + tokens * (2 * logit + math.log(VOCABULARY))
    )


def gradient_tolerances(parameters, tokens, loudness=1):
    """How far apart an entry of two right gradients may be, for the embedding and for the head.

    Such an entry is a mean of differences of probabilities, each with the relative error of a loss,
    times an entry of the other parameter.
    """
    embedding, head = (float(p.detach().abs().max()) for p in parameters[:2])
    error = loudness * loss_tolerance(parameters, tokens, loudness)
    return [2 * largest * error for largest in (head, embedding)]


def check_gradients(got, step, run, *, hint):
    """Check that the optimizer got the batch's gradients, scaled down to max_norm if longer."""
    parameters, gradients = step_of(got, step)
    parts, max_norm = passes(got, step), run["config"]["max_grad_norm"]
    windows = batch(parts, run["config"])
    parts = parts if run["model"].get("louder") else [windows]
    loss = loss_of_parts(parameters, parts, run["train_tokens"])
    expected = torch.autograd.grad(loss, parameters[:2])
    norm = norm_of(expected)
    scale = 1.0 if max_norm is None else min(1.0, max_norm / norm)
    spared = 1e-6 / norm if scale < 1 else 0.0  # the effect of adding 1e-6 to the norm
    tolerances = gradient_tolerances(parameters, windows.numel(), len(parts))
    for gradient, want, atol in zip(gradients, expected, tolerances, strict=True):
        name = "a gradient with which the optimizer steps"
        near = {"atol": atol * scale, "rtol": 2 * spared + 8 * EPS}
        expect.tensor(gradient, want * scale, name=name, hint=hint, **near)


# --- the learning rate


@pytest.mark.stage(1)
@pytest.mark.harm("trains worse")
def test_the_learning_rate_of_each_step(student, rng):
    """Step s, counted from 0, uses lr_cosine_schedule(s, max, min, warmup_steps, steps)."""
    scale = 0.2 + 0.3 * float(torch.rand((), generator=rng))
    for steps, warmup, low, high in [(9, 3, 1 / 7, 1), (6, 0, 0.0, 1e-8), (5, 2, 0.01, 10)]:
        high = high * scale
        low = low * high
        rates = {"max_learning_rate": high, "min_learning_rate": low}
        run = run_of(rng, steps=steps, warmup_steps=warmup, max_grad_norm=1e-6, **rates)
        for step, lr in enumerate(column(trained(student, **run), "learning_rates", steps)):
            want = high * step / max(1, warmup)
            hint = "the warm-up is linear from 0: step s has max · s / warmup_steps"
            if step >= warmup:
                cosine = math.cos(math.pi * (step - warmup) / (steps - warmup))
                want = low + (high - low) * (1 + cosine) / 2
                hint = "max at step warmup_steps, then a cosine that would reach min at `steps`"
            name = f"the learning rate of step {step}"
            expect.number(lr, want, tolerance=1e-6 * high, name=name, hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("trains worse")
def test_every_group_gets_the_learning_rate(student, rng):
    """The optimizer steps once per step, with that step's learning rate in every group."""
    got = trained(student, **run_of(rng, steps=7, warmup_steps=2), groups=2)
    reported, given = column(got, "learning_rates", 7), got["steps"]["learning_rates"]
    expect.that(len(given) == 7, f"the optimizer stepped {len(given)} times in 7 steps")
    hint = 'group["lr"] = lr for every group of optimizer.param_groups, before optimizer.step()'
    for lr, groups in zip(reported, given, strict=True):
        expect.parts(groups, 2, name="groups")
        for group in groups:
            expect.kind(group, (float, int), name="the learning rate of a group")
            reason = "a group steps with a learning rate other than the reported one"
            expect.that(abs(group - lr) <= 1e-6 * lr, reason, hint=hint)


# --- loss and gradients


# Stays: it is the plain case, and looks at the reported losses alone.
@pytest.mark.stage(1)
@pytest.mark.harm("wrong number")
def test_the_loss_of_each_step(student, rng):
    """`losses` has the mean next-token cross-entropy of each step's batch, before the update."""
    # These scales give losses of about 4, of log(VOCABULARY), and above 1000.
    for scale, steps in [(1.0, 5), (1e-4, 1), (40.0, 1)]:
        run = scaled(run_of(rng, steps=steps), scale, scale)
        got = trained(student, **run)
        losses = column(got, "losses", steps)
        for step, windows in enumerate(batches(got, run)):
            parameters, _ = step_of(got, step)
            want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
            hint = "the target of a token is the next one; take the mean over the batch's tokens"
            atol = loss_tolerance(parameters, windows.numel())
            name = f"the loss of step {step}"
            expect.number(losses[step], want, tolerance=atol, name=name, hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("trains worse")
def test_the_gradients_of_each_step(student, rng):
    """Each step uses the gradients of its own batch, and no others."""
    run = run_of(rng)
    for given in (run, with_positions(rng, run)):  # in the latter no token comes twice in a window
        got = trained(student, **given)
        hint = "the mean cross-entropy over all tokens of the batch, before the parameters change"
        for step in range(5):
            check_gradients(got, step, given, hint=hint)
            hint = "backward adds to .grad: when is it set to zero?"


# Later forward passes are louder: so the micro-batches of a step differ, whatever is drawn.
LOUDER = {"louder": True}
MICRO_BATCHES = [(7, 3), (3, 1), (4, 9)]


# Stays: wrong weights train worse whether or not the reported loss is right.
@pytest.mark.stage(2)
@pytest.mark.harm("trains worse")
def test_the_gradients_of_micro_batches(student, rng):
    """Micro-batches give the gradients of the whole batch's mean loss, whatever their sizes."""
    for size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=size, micro_batch_size=micro, model=LOUDER)
        hint = "weight each micro-batch: its mean loss times its windows / batch_size"
        check_gradients(trained(student, **run), 0, run, hint=hint)


# Stays: the other tests of micro-batches are about gradients and about a loss that is no number.
@pytest.mark.stage(2)
@pytest.mark.harm("wrong number")
def test_the_loss_of_micro_batches(student, rng):
    """With micro-batches the loss is the mean over the whole batch, even if the last is short."""
    for size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=size, micro_batch_size=micro, model=LOUDER)
        got = trained(student, **run)
        (loss,), parts = column(got, "losses", 1), passes(got, 0)
        parameters, windows = step_of(got, 0)[0], batch(parts, run["config"])
        want = float(loss_of_parts(parameters, parts, run["train_tokens"]).detach())
        hint = "take the mean over the batch, with each micro-batch weighted by its windows"
        atol = loss_tolerance(parameters, windows.numel(), len(parts))
        name = "the loss of a step in micro-batches"
        expect.number(loss, want, tolerance=atol, name=name, hint=hint)


@pytest.mark.stage(2)
@pytest.mark.harm("crash")
def test_a_step_takes_little_memory(student, rng):
    """At most micro_batch_size windows go through the model at a time, each exactly once.

    An evaluation records no gradients. The result holds floats: a tensor would keep its graph.
    """
    for size, micro in [*MICRO_BATCHES, (4, None)]:
        run = run_of(rng, steps=1, batch_size=size, micro_batch_size=micro, eval_every=1)
        got = trained(student, **run)
        sizes = [len(part) for part in passes(got, 0)]
        reason = f"{sum(sizes)} windows go through the model in a step with batch_size {size}"
        expect.that(sum(sizes) == size, reason)
        reason = f"{max(sizes)} windows are in the model at once with micro_batch_size {micro}"
        expect.that(max(sizes) <= (micro or size), reason, hint="x.split(micro_batch_size)")
        recorded = any(got["forwards"]["grad_enabled"][n] for n in forwards(got, "val"))
        expect.that(not recorded, "an evaluation records gradients", hint="torch.no_grad()")
        result = check_result(got)
        for name in ("losses", "learning_rates", "grad_norms"):
            for value in result[name] if column(got, name, 1) else []:
                reason = f"wrong type in {name}: expected float, got {expect.type_name(value)}"
                is_number = isinstance(value, (float, int))
                expect.that(is_number, reason, hint="tensor.item() is a float")


# --- clipping


# Scales of embedding and head that give gradients of 1e-4 to 1e4.
MAGNITUDES = [(1.0, 1.0), (1e-4, 1e-4), (1e-4, 1e4), (10.0, 10.0)]


@pytest.mark.stage(2)
@pytest.mark.harm("crash")
def test_norms_before_clipping(student, rng):
    """`grad_norms` has the norm of all gradients together, before any clipping.

    A parameter without a gradient has no part in it, and does not change.
    """
    limits = [(0.1, False), (None, True), (1.0, False), (100.0, True)]
    for (limit, unused), scales in zip(limits, MAGNITUDES, strict=True):
        model = {"unused": unused, "frozen": limit is None}
        # AdamW's weight decay changes a parameter whose gradient is 0.
        run = run_of(rng, steps=1, max_grad_norm=limit, model=model, optimizer="AdamW")
        run = scaled(run, *scales) | {"groups": 3 if unused else 1}
        got = trained(student, **run)
        (windows,), (parameters, _) = batches(got, run), step_of(got, 0)
        loss = true_loss(parameters, windows, run["train_tokens"])
        want = norm_of(torch.autograd.grad(loss, parameters[:2]))
        # If each of n entries is wrong by t, the norm is wrong by at most t · √n.
        errors = gradient_tolerances(parameters, windows.numel())
        near = {"tolerance": sum(errors) * math.sqrt(VOCABULARY * WIDTH) + 8 * EPS * want}
        name, (norm,) = "the norm of the gradients", column(got, "grad_norms", 1)
        hint = "the root of the sum of all squares, over all parameters, before any scaling"
        expect.number(norm, want, name=name, hint=hint, **near)
        for p in got["parameters"][2:]:
            name, hint = "a parameter without a gradient", "leave its .grad None: no step for it"
            expect.tensor(p, torch.ones(3), name=name, hint=hint)


@pytest.mark.stage(2)
@pytest.mark.harm("wrong number")
def test_long_gradients_are_clipped(student, rng):
    """Gradients whose norm is above max_grad_norm are scaled down to it, once and together."""
    cases = [(0.1, (1.0, 1.0)), (1e-4, (1.0, 1.0)), (1.0, (1e-4, 1e4))]
    for i, (limit, scales) in enumerate(cases):
        run = scaled(run_of(rng, steps=1, max_grad_norm=limit), *scales)
        run["groups"] = 1 + i % 2  # the groups of an optimizer are clipped together
        hint = "one factor for all gradients, max_grad_norm / norm, between backward and step"
        check_gradients(trained(student, **run), 0, run, hint=hint)
    for limit in (0.1, 0.3):
        run = run_of(rng, steps=1, batch_size=7, max_grad_norm=limit, model=LOUDER)
        run = changed(run, micro_batch_size=3)
        hint = "add up the weighted micro-batches, then compute the norm, then scale"
        check_gradients(trained(student, **run), 0, run, hint=hint)


@pytest.mark.stage(2)
@pytest.mark.harm("wrong number")
def test_short_gradients_are_not_clipped(student, rng):
    """Gradients stay as they are if their norm is below max_grad_norm or max_grad_norm is None."""
    for limit, scales in zip((1000.0, 1000.0, None, None), MAGNITUDES, strict=True):
        run = scaled(run_of(rng, steps=1, max_grad_norm=limit), *scales)
        hint = "None means no limit, and clipping never makes a gradient longer"
        check_gradients(trained(student, **run), 0, run, hint=hint)


# --- batches


@pytest.mark.stage(1)
@pytest.mark.harm("crash")
def test_batches_are_windows_of_the_data(student, rng):
    """The model gets int64 windows of a uint16 file, with targets, and new ones in each step."""
    for length, size in [(6, 32), (1, 3), (TRAIN - 3, 2)]:
        run = with_positions(rng, run_of(rng, steps=8, context_length=length, batch_size=size))
        got = trained(student, **run, stored_as="uint16", watch=IN_ORDER)
        dtypes = {tokens.dtype for tokens in got["forwards"]["tokens"]}
        expect.that(dtypes == {torch.int64}, "the model is given tokens that are not int64")
        starts = [starts_of(windows, run["train_tokens"]) for windows in batches(got, run)]
        if size == 32:
            new = len({tuple(found) for found in starts}) == 8
            expect.that(new, "a step has the same batch as another")
            apart = [{b - a for a, b in pairwise(s)} for s in starts]
            drawn = all(len(set(s)) > 3 and len(a) > 3 for s, a in zip(starts, apart, strict=True))
            expect.that(drawn, "the windows of a batch do not start independently")


@pytest.mark.stage(1)
@pytest.mark.harm("rare")
def test_every_start_is_equally_likely(student, rng):
    """Every start, from the first to the last, is drawn about equally often."""
    hint = "draw starts uniformly from 0 … n - context_length - 1, both included"
    for length, size, steps in [(TRAIN - 2, 64, 1), (TRAIN - 9, 400, 10)]:
        count, draws = TRAIN - length, size * steps
        run = run_of(rng, context_length=length, batch_size=size, steps=steps)
        run = with_positions(rng, run)
        got = trained(student, **run, watch=IN_ORDER)
        windows = torch.cat(batches(got, run))
        starts = starts_of(windows, run["train_tokens"])
        reason = "one of two starts is never drawn: is it the last one?"
        expect.that(len({*starts}) > 1, reason, hint=hint)
        spread = 8 * math.sqrt((count - 1) * draws) / count  # standard deviations of a share
        fair = all(abs(starts.count(s) - draws / count) < spread for s in range(count))
        expect.that(fair, f"one of {count} starts is drawn too rarely or too often", hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("crash")
def test_the_seed_decides(student, rng):
    """The same seed and first weights give equal runs; another seed gives other batches."""
    run = with_positions(rng, run_of(rng, steps=3, batch_size=16, optimizer="AdamW", seed=0))
    first, again = (trained(student, **run, seed_before=seed) for seed in (1, 2))
    hint = "does config.seed determine the batches?"
    same = column(first, "losses", 3) == column(again, "losses", 3)
    expect.that(same, "two runs with the same seed have different losses", hint=hint)
    drawn, longer = torch.stack(batches(first, run)), changed(run, steps=5)
    same = torch.equal(torch.stack(batches(trained(student, **longer), longer)[:3]), drawn)
    expect.that(same, "a longer run begins with other batches", hint=hint)
    # A seed may be hashed: torch.Generator uses 32 bits of it, so two seeds may happen to agree.
    others = (batches(trained(student, **changed(run, seed=n)), run) for n in range(1, 9))
    differ = any(not torch.equal(torch.stack(other), drawn) for other in others)
    expect.that(differ, "another seed gives the same batches", hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("crash")
def test_only_the_batches_are_read(student, rng):
    """The data may be far larger than memory: train converts only the windows that it uses.

    The test uses 2**50 tokens, each of which is 40,000: too large for int16. They are those of an
    evaluation, too, if there is one: another test expects it.
    """
    run = run_of(rng, steps=1, eval_every=1)
    run = {key: run[key] for key in ("config", "optimizer")}
    run["parameters"] = [torch.zeros(40_001, 1), torch.zeros(40_001, 1)]
    got, windows = student.run(probes.trained_on_endless_data, token=40_000, length=2**50, **run)
    right = sum(int((tokens == 40_000).sum()) for tokens in windows)
    reason = f"the model was given {right} of the 4 · 6 tokens that are 40,000"
    expect.that(right == 24, reason, hint="keep uint16 values: astype(np.int64)")
    (loss,) = column(got, "losses", 1)
    want = math.log(40_001)  # all logits are 0
    expect.number(loss, want, tolerance=EPS * 40_001, name="the loss")


# --- evaluation


def evaluations(got):
    """The windows of each evaluation's forward passes, with their numbers, by steps before it."""
    found = {}
    for number in forwards(got, "val"):
        reason, hint = "an evaluation does not run in eval mode", "model.eval()"
        expect.that(not got["forwards"]["training"][number], reason, hint=hint)
        tokens = got["forwards"]["tokens"][number].long()
        found.setdefault(got["forwards"]["steps_before"][number], []).append((number, tokens))
    return found


@pytest.mark.stage(3)
@pytest.mark.harm("wrong number")
def test_the_loss_of_an_evaluation(student, rng):
    """eval_losses[s + 1] is the mean loss on val_tokens, in eval mode, after step s.

    All evaluations of a run use the same eval_batches batches, which differ from each other.
    """
    for every, count, part in [(2, 3, None), (3, 2, 3)]:
        run = run_of(rng, steps=7, eval_every=every, eval_batches=count, model=LOUDER)
        run = changed(run, micro_batch_size=part)
        got = trained(student, **changed(run, max_learning_rate=0.01))
        losses, windows = evaluated_when_due(got, run), evaluations(got)
        steps = [*got["steps"]["parameters"], got["parameters"]]
        expect.that(len(steps) == 8, "the optimizer did not step once per step")
        for key in losses:
            hint = "the mean over eval_batches batches of batch_size windows, after the step"
            size = sum(len(tokens) for _, tokens in windows.get(key, []))
            reason = f"an evaluation of {count} batches of 4 windows has {size} windows"
            expect.that(size == count * 4, reason, hint=hint)
            parameters, data = [p.double() for p in steps[key]], run["val_tokens"]
            want, atol = 0.0, 0.0
            for number, tokens in windows[key]:  # later forward passes are louder
                want += float(true_loss(parameters, tokens, data, number + 1)) * len(tokens) / size
                atol = loss_tolerance(parameters, 6 * size, number + 1)
            expect.number(losses[key], want, tolerance=atol, name=f"eval_losses[{key}]", hint=hint)
    run = run_of(rng, steps=3, batch_size=8, context_length=3, eval_every=1, eval_batches=8)
    run = with_positions(rng, run) | {"model": {"dropout": 0.4}}  # which moves torch's state
    got = trained(student, **run, watch=IN_ORDER)
    drawn = [torch.cat([tokens for _, tokens in found]) for found in evaluations(got).values()]
    starts = [sorted(starts_of(found, run["val_tokens"])) for found in drawn]
    parameters, seen = [p.double() for p in got["parameters"]], drawn[-1]
    want = float(true_loss(parameters, seen, run["val_tokens"]))
    atol, hint = loss_tolerance(parameters, seen.numel()), "the target of a token is the next one"
    expect.number(eval_losses(got).get(3), want, tolerance=atol, hint=hint)
    hint, reason = "draw them from the same seed", "two evaluations use different batches"
    expect.that(all(s == starts[0] for s in starts), reason, hint=hint)
    # By chance this happens less than once in 1e17 runs.
    again = all(starts[0].count(start) % 8 == 0 for start in set(starts[0]))
    reason = "an evaluation uses the same batch again and again"
    expect.that(not again, reason, hint="use eval_batches different batches")


@pytest.mark.stage(3)
@pytest.mark.harm("trains worse")
def test_evaluation_changes_no_training(student, rng):
    """Evaluation changes nothing in training, bit for bit: mode, batches, dropout, optimizer."""
    run = run_of(rng, steps=6, eval_every=2, eval_batches=3)
    got = trained(student, **run)
    seen = [got["forwards"]["training"][number] for number in forwards(got, "train")]
    hint = "after an evaluation, the model is in training mode again"
    expect.that(all(seen), "a step trains in eval mode", hint=hint)
    run |= {"optimizer": "AdamW"}
    for other, what, hint in [
        (with_positions(rng, run), "batches", "evaluations draw from a generator of their own"),
        (run | {"model": {"dropout": 0.4}}, "losses", "put torch's random state back afterwards"),
    ]:
        agreeing = student.run(probes.with_and_without_evaluations, **other)
        expect.that(agreeing["evaluated"] > 0, "no validation tokens went through the model")
        reason = f"{what} differ from those of a run without evaluations after an evaluation"
        expect.that(agreeing[what] >= 6, reason, hint=hint)
        reason = "parameters differ from those of a run without evaluations"
        expect.that(agreeing["parameters"] == 2, reason, hint=hint)


# --- lower precision, and losses that are not finite


@pytest.mark.stage(2)
@pytest.mark.harm("crash")
def test_autocast_keeps_float32(student, rng):
    """Under autocast, logits have its dtype; the loss, parameters, gradients and state float32."""
    settings = {"autocast_dtype": torch.bfloat16, "max_learning_rate": 5.0, "eval_every": 2}
    run = run_of(rng, steps=4, optimizer="AdamW", **settings) | {"watch": {"keep_logits": True}}
    got = trained(student, **run)
    logits = got["forwards"]["logits"]
    hint = "use torch.autocast around forward and loss, and do not convert the model"
    right = {x.dtype for x in logits} == {torch.bfloat16}
    expect.that(right, "logits do not have autocast_dtype", hint=hint)
    kept = [x for x in chain(got["parameters"], *got["steps"]["gradients"]) if x is not None]
    is_float32 = {x.dtype for x in kept} == {torch.float32} and got["has_float32_state"]
    reason = "parameters, gradients or the optimizer's state are not float32"
    expect.that(is_float32, reason, hint=hint)
    reason = "the backward pass runs under autocast"
    expect.that(not got["autocast_in_backward"], reason, hint="leave it before that")
    losses, whole = column(got, "losses", 4), len(logits) == len(got["forwards"]["tokens"])
    expect.that(whole, "logits without tokens")
    for step, windows in enumerate(batches(got, run)):
        of_step = torch.cat([logits[number] for number in passes_of(got, step)]).double()
        check_bfloat16(got, step, windows, of_step, losses[step], run)


def check_bfloat16(got, step, windows, logits, loss, run):
    """Check a step's bfloat16 logits, and its loss against the loss of those logits."""
    reason = "train does not use the model's logits unchanged"
    expect.that(logits.shape == (*windows.shape, VOCABULARY), reason)
    (embedding, head), _ = step_of(got, step)
    # Each factor, each product, each sum and the result are rounded to 8 bits.
    most = (WIDTH + 3) * 2**-8 * (embedding.abs()[windows] @ head.abs().T)
    right = bool(((logits - embedding[windows] @ head.T).abs() <= most).all())
    hint = "leave autocast before the optimizer steps: inside, it keeps copies of parameters"
    reason = "the forward pass of a step does not use the parameters as they are then"
    expect.that(right, reason, hint=hint)
    answers = targets(windows, run["train_tokens"]).flatten()
    want = float(F.cross_entropy(logits.flatten(0, 1), answers))
    # Since the logits are given, only the log of a sum of exponentials and a mean are rounded.
    atol = EPS * (VOCABULARY + windows.numel() + 8 * (1 + float(logits.abs().max())))
    name, hint = f"the loss of step {step}, given its logits", "compute the loss in float32"
    expect.number(loss, want, tolerance=atol, name=name, hint=hint)


@pytest.mark.stage(1)
@pytest.mark.harm("crash")
def test_a_loss_that_is_no_number_ends_the_run(student, rng):
    """On a NaN or infinite loss, FloatingPointError is raised before the optimizer steps."""
    run = run_of(rng, steps=6, micro_batch_size=3)  # of 4: the second part's loss is finite
    with expect.right_call("a run without a NaN"):
        column(trained(student, **run), "losses", 6)
    for kind, infinite in (("NaN", False), ("infinite", True)):
        got = trained(student, **run, watch={"break_at": 3, "infinite": infinite})
        hint = "math.isfinite(loss), between the loss and optimizer.step()"
        expect.that(got["stopped"], f"no FloatingPointError although a loss is {kind}", hint=hint)
        reason = f"the optimizer steps although the loss is {kind}"
        expect.that(len(got["steps"]["parameters"]) == 3, reason, hint=hint)


# --- checkpoints


def check_killed(student, run, kill_at):
    """Kill a run after so many steps, resume it, and compare it with one never stopped."""
    run = changed(run, checkpoint_path="checkpoint", checkpoint_every=2)
    steps = run["config"]["steps"]
    got = student.run(probes.killed, kill_at=kill_at, **run)
    whole = got["whole"]
    evaluated_when_due(whole, run)
    for at, again in zip(kill_at, got["again"], strict=True):
        first, when = first_step(again), f"killed after {at} steps and resumed, "
        hint = "save a checkpoint if 2 divides s + 1; the step in it is s + 1"
        expect.that(first == at - at % 2, f"{when}it starts at step {first}", hint=hint)
        hint = "what state does a step depend on that the checkpoint does not contain?"
        for name in ("losses", "learning_rates", "grad_norms"):
            same = column(again, name, steps - first) == column(whole, name, steps)[first:]
            reason = f"{when}{name} differ from those of a run that was not killed"
            expect.that(same, reason, hint=hint)
        left = {key: loss for key, loss in eval_losses(whole).items() if key > first}
        reason = f"{when}evaluations differ from those of a run that was not killed"
        expect.that(eval_losses(again) == left, reason, hint=hint)
        same_parameters(again["parameters"], whole["parameters"], hint=hint)


def same_parameters(got, expected, *, hint):
    both = len(got) == len(expected) == 2  # embedding and head
    expect.that(both, "the number of parameters has changed")
    for p, want in zip(got, expected, strict=True):
        name = "a parameter at the end of a run that was killed and resumed"
        expect.tensor(p, want, name=name, hint=hint)


# Stays: it judges resuming alone, without state of the optimizer.
@pytest.mark.stage(4)
@pytest.mark.harm("wrong number")
def test_a_killed_run_goes_on_from_its_checkpoint(student, rng):
    """A killed SGD run resumes from its last checkpoint and ends bit-equal to one never killed."""
    run = run_of(rng, steps=6, min_learning_rate=0.5)
    for given in (run, with_positions(rng, run)):
        check_killed(student, given, kill_at=[1, 2, 5])


@pytest.mark.stage(4)
@pytest.mark.harm("trains worse")
def test_all_state_goes_on_after_a_kill(student, rng):
    """A resumed run ends bit-equal with AdamW, warm-up, dropout, buffers and evaluations, too."""
    run = run_of(rng, optimizer="AdamW", steps=6, warmup_steps=2, max_grad_norm=0.1, eval_every=3)
    # Without dropout, all right code computes alike. After 3 steps, it is killed in an evaluation.
    for model, kill_at in (({}, [5]), ({"dropout": 0.5}, [3, 4, 5])):
        check_killed(student, run | {"model": model | {"average": True}}, kill_at=kill_at)


@pytest.mark.stage(4)
@pytest.mark.harm("crash")
def test_killed_while_it_writes_a_checkpoint(student, rng):
    """A run killed while it writes a checkpoint resumes from a complete one."""
    files = {"checkpoint_every": 2, "checkpoint_path": "checkpoint"}
    run = run_of(rng, steps=4, min_learning_rate=0.5, **files)
    run["parameters"] = [torch.randn(600, WIDTH, generator=rng) for _ in range(2)]
    whole, again, failure = student.run(probes.killed_while_writing, kill_at=3, **run)
    hint = "write to a temporary file next to it, and call os.replace once it is complete"
    reason = f"the run that is started again raises {failure}: is its checkpoint whole?"
    expect.that(not failure, reason, hint=hint)
    first = first_step(again)
    expect.that(first > 0, "the previous checkpoint is lost", hint=hint)
    reason = f"after a checkpoint that 2 steps precede, it starts at step {first}"
    expect.that(first >= 2, reason, hint="the step in a checkpoint is s + 1")
    same = column(again, "losses", 4 - first) == column(whole, "losses", 4)[first:]
    expect.that(same, "it ends with different losses than a run that was never killed", hint=hint)


@pytest.mark.stage(4)
@pytest.mark.harm("rare")
def test_the_last_step_saves_a_checkpoint(student, rng):
    """A checkpoint is saved after the last step too; a finished run, if restarted, takes no step.

    The restarted run has the final parameters.
    """
    for every in (0, 4):
        run = run_of(rng, steps=6, checkpoint_path="checkpoint", checkpoint_every=every)
        anew = {"parameters": [torch.zeros_like(p) for p in run["parameters"]]}
        done, again = student.run(probes.one_after_the_other, runs=[{}, anew], **run)
        column(done, "losses", 6)
        hint = "save after the last step too, even if checkpoint_every does not divide it"
        hint = "the step in a checkpoint is s + 1" if first_step(again) == 5 else hint
        reason = f"restarted after its last step, it begins with step {first_step(again)}"
        expect.that(first_step(again) == 6, reason, hint=hint)
        column(again, "losses", 0)
        same_parameters(again["parameters"], done["parameters"], hint=hint)


# --- the log


def check_log(rows, steps):
    """Check that the log has one line per step, in order, without duplicates."""
    for row in rows:
        whole = isinstance(row, list) and len(row) == 2
        expect.that(whole, "a line of the log is not a JSON object", hint="json.dumps")
    reason = "the log does not contain one line per step, in order"
    hint = 'the key "step" counts from 0; a resume cuts off the lines of steps that run again'
    expect.that([row[0] for row in rows] == list(range(steps)), reason, hint=hint)


@pytest.mark.stage(3)
@pytest.mark.harm("crash")
def test_one_line_a_step(student, rng):
    """Each step logs a JSON line before the next step begins; a fresh run starts a new log."""
    run = run_of(rng, log_path="log", warmup_steps=2, eval_every=2)
    runs = [changed(run, steps=steps) for steps in (6, 4)]
    for got, steps in zip(student.run(probes.one_after_the_other, runs=runs), (6, 4), strict=True):
        check_log(got["log"], steps)
        logged, reason = [row[1] for row in got["log"]], '"loss" in the log differs from losses'
        expect.that(logged == column(got, "losses", steps), reason)
        trained_steps, reason = {step for step, _ in got["lines"]}, "a step has no training batch"
        expect.that(trained_steps == set(range(steps)), reason)
        for step, lines in got["lines"]:
            # Before the first line, the log of the run before may still be there.
            reason = f"in step {step}, the log has {lines} lines"
            hint = "flush after every line, or close the file"
            expect.that(lines == step or step == 0, reason, hint=hint)


@pytest.mark.stage(4)
@pytest.mark.harm("crash")
def test_the_log_after_a_kill(student, rng):
    """After a kill and a resume the log has one line per step, and no unfinished one."""
    files = {"log_path": "log", "checkpoint_path": "checkpoint"}
    run = run_of(rng, steps=6, checkpoint_every=2, eval_every=4, **files)
    leave = ['{"step": 3, "lo', '{"step": 3, "loss": 2.5}', ""]
    # After 4 steps, it is killed in an evaluation.
    got = student.run(probes.killed, kill_at=[3, 3, 4], leave=leave, **run)
    for run in (got["whole"], *got["again"]):
        check_log(run["log"], 6)
