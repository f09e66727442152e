"""training_loop: what each step does, what a run leaves, and how it goes on after a kill.

Accepted on purpose: batches from any generator that the seed decides, as the tests look at the batches that the model is
given, and compute loss, gradients and norms of those in float64; micro-batches of any sizes up to the one asked for, in any
order; gradients set to None or to zero; scaling by max/norm or max/(norm + 1e-6); a loss computed in float32 or float64;
evaluation of a batch whole or in micro-batches, before or after the checkpoint of that step; any format of a checkpoint,
and any temporary file beside it; numpy's float64 where a float is asked for; any more keys in the log; any order of the
checks of a wrong call. Where random numbers are drawn in evaluation, their values.

Tokens of the training data are all different, and others than those of the validation data: so a token tells which data it
is from, where it lies, and which one follows. Most rules are judged by themselves, from the parameters that the student's own
run had before a step: a mistake in one step is not paid for again in later ones. Runs that are killed are compared with
the same run left alone, bit for bit, by the student's own numbers.
"""

import itertools
import math
import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests import expect
from tests.probes import training as probes

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
    """The inputs of a run: a model, training tokens 0 … 22 and validation tokens 23 … 39, both shuffled."""
    parameters = [torch.randn(VOCABULARY, WIDTH, generator=rng) * 0.6 for _ in range(2)]
    return {
        "parameters": parameters,
        "config": {**DEFAULTS, "seed": integer(rng, 0, 2**20), **config},
        "train_tokens": torch.randperm(TRAIN, generator=rng).numpy(),
        "val_tokens": torch.randperm(VAL, generator=rng).numpy() + TRAIN,
        "model": model or {},
        "optimizer": optimizer,
    }


def changed(inputs, **config):
    """The same inputs with other fields of the config."""
    return {**inputs, "config": {**inputs["config"], **config}}


def trained(student, **run):
    """One run of the student's, as the probe noted it down."""
    return readable(student.run(probes.trained, **run), run)


def readable(got, run):
    """A run's notes, when they fit together: what follows may then index, add up and compare them."""
    asked, steps = got["forwards"], got["steps"]
    vocabulary, rows = len(run["parameters"][0]), [*steps["parameters"], got["parameters"]]
    fit = len({len(asked[name]) for name in ("tokens", "modes", "grad_enabled", "steps_before")}) == 1
    fit = fit and len(steps["parameters"]) == len(steps["gradients"]) == len(steps["learning_rates"])
    fit = fit and all(len(row) >= 2 and row[0].shape == row[1].shape == run["parameters"][0].shape for row in rows)
    fit = fit and all(len(row) == len(rows[0]) for row in [*rows, *steps["gradients"]])
    for tokens in asked["tokens"]:
        fit = fit and tokens.dim() == 2 and tokens.numel() > 0 and not tokens.is_floating_point()
        fit = fit and 0 <= int(tokens.min()) <= int(tokens.max()) < vocabulary
    expect.that(fit, "the model or the optimizer is not used as they are meant to be", of="train")
    return got


# --- what came back


def check_result(got):
    """The fields of a TrainResult came back at all."""
    result = got["result"] if isinstance(got, dict) and "result" in got else got
    expect.that(result is not None, "returned None: is a `return` missing?", of="train")
    is_result = isinstance(result, dict) and set(result) == set(probes.FIELDS)
    expect.that(is_result, f"expected a TrainResult, got {expect.type_name(result)}", of="train")
    return result


def column(got, name, count):
    """One of the result's lists, with so many finite numbers in it; that they are floats is judged by a test of its own."""
    values = check_result(got)[name]
    expect.that(type(values) is list, f"wrong type of {name}: expected list, got {expect.type_name(values)}", of="train")
    reason = f"{name} has {len(values)} entries for {count} steps"
    expect.that(len(values) == count, reason, of="train", hint="one entry for each step of this call")
    return [finite(value, name) for value in values]


def finite(value, name):
    """A number out of a result, which may be a tensor of one element."""
    number = value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
    expect.that(type(number) is float, f"wrong type in {name}: expected float, got {expect.type_name(value)}", of="train")
    expect.that(math.isfinite(number), f"an entry of {name} is {number}", of="train")
    return number


def eval_losses(got, keys):
    """The result's evaluations, at these numbers of steps."""
    losses = check_result(got)["eval_losses"]
    expect.that(type(losses) is dict, f"wrong type of eval_losses: expected dict, got {expect.type_name(losses)}", of="train")
    reason = "eval_losses has entries for other steps than asked for"
    hint = "after step s, counted from 0, where s + 1 is a multiple of eval_every; the key is s + 1"
    expect.that(all(type(key) is int for key in losses) and list(losses) == keys, reason, of="train", hint=hint)
    return [finite(loss, "eval_losses") for loss in losses.values()]


def forwards(got, which):
    """The numbers of the forward passes with tokens of "train" or "val" data."""
    chosen = []
    for number, tokens in enumerate(got["forwards"]["tokens"]):
        of_training = (tokens < TRAIN).float().mean().item()
        expect.that(of_training in (0, 1), "a batch mixes training and validation tokens", of="train")
        chosen += [number] if of_training == (which == "train") else []
    return chosen


def batches(got, inputs):
    """For each step the windows that the model was given, as one tensor (batch_size, context_length)."""
    config = inputs["config"]
    count = config["steps"]
    parts = [[] for _ in range(count)]
    for number in forwards(got, "train"):
        step = got["forwards"]["steps_before"][number]
        expect.that(0 <= step < count, "a training batch is drawn after the last step", of="train")
        parts[step].append(got["forwards"]["tokens"][number].long())
    found = []
    for part in parts:
        expect.that(len(part) > 0, "a step without a training batch", of="train", hint="one optimizer.step for each batch")
        widths = {tokens.shape[1] for tokens in part}
        expect.that(widths == {config["context_length"]}, "a window is not context_length tokens long", of="train")
        found.append(torch.cat(part))
        reason = f"{len(found[-1])} windows in a step with batch_size {config['batch_size']}"
        expect.that(len(found[-1]) == config["batch_size"], reason, of="train", hint="once through the model, each of them")
    return found


def start_of(window, data):
    """Where in the data a window begins. That it ends in time is judged by a test of its own, so here data are a ring."""
    places = {token: place for place, token in enumerate(data.tolist())}
    start = places.get(int(window[0]), -1)
    expect.that(start >= 0, "a window holds a token that is not in the data", of="train")
    piece = np.take(data, range(start, start + len(window)), mode="wrap").tolist()
    expect.that(window.tolist() == piece, "a window is not a piece of the data", of="train")
    return start


def targets(windows, data):
    """For each token the one that follows it in the data."""
    follows = torch.zeros(VOCABULARY, dtype=torch.int64)
    follows[torch.from_numpy(data)] = torch.from_numpy(np.roll(data, -1))
    return follows[windows]


def true_loss(parameters, windows, data):
    """The mean cross-entropy of the next token, in float64."""
    embedding, head = parameters[:2]
    return F.cross_entropy((embedding[windows] @ head.T).flatten(0, 1), targets(windows, data).flatten())


def step_of(got, step):
    """What the optimizer was given in one step: its parameters and gradients, in float64."""
    steps = got["steps"]
    reason = f"the optimizer stepped {len(steps['parameters'])} times, fewer than the steps asked for"
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


def tolerance(parameters, tokens):
    """How far apart two right losses, or entries of gradients, may be in float32.

    A logit is a sum of WIDTH products, at most L = WIDTH · max|e| · max|h|, so it is wrong by (WIDTH + 1) · eps · L. The log
    of the sum of exponentials takes over as much, and adds VOCABULARY · eps and some eps · L. A loss is the difference of two
    of these, at most 2L + log(VOCABULARY); their mean over the batch is rounded once for each token. An entry of a gradient is
    a mean of differences of probabilities, each as wrong relatively, times parameters: in sum 2 · max(|e|, |h|) at most.
    """
    largest = [float(p.detach().abs().max()) for p in parameters[:2]]
    logit = WIDTH * largest[0] * largest[1]
    error = 2 * (WIDTH + 1) * logit + VOCABULARY + 4 * logit + tokens * (2 * logit + math.log(VOCABULARY))
    return EPS * error * max(1, 2 * max(largest))


def check_gradients(got, step, windows, data, *, hint, max_norm=None):
    """The optimizer was given the batch's gradients, scaled to max_norm where they are longer."""
    parameters, gradients = step_of(got, step)
    expected = true_gradients(parameters, windows, data)
    norm = norm_of(expected)
    scale = 1.0 if max_norm is None else min(1.0, max_norm / norm)
    spared = 1e-6 / norm if max_norm is not None else 0.0  # what adding 1e-6 to the norm changes
    atol = tolerance(parameters, windows.numel()) * scale
    for gradient, want in zip(gradients, expected, strict=True):
        name = "a gradient that the optimizer steps with"
        expect.tensor(gradient, want * scale, of="train", atol=atol, rtol=2 * spared + 8 * EPS, name=name, hint=hint)


def test_the_result_holds_floats(student, rng):
    """Its lists hold floats, eval_losses maps integers to floats, and first_step of a fresh run is the integer 0."""
    result = check_result(trained(student, **run_of(rng, eval_every=2)))
    eval_losses(result, [2, 4])
    for name in ("losses", "learning_rates", "grad_norms"):
        column(result, name, 5)
    expect.value(result["first_step"], 0, of="train")
    for name in ("losses", "learning_rates", "grad_norms", "eval_losses"):
        values = result[name].values() if name == "eval_losses" else result[name]
        for value in values:
            reason = f"wrong type in {name}: expected float, got {expect.type_name(value)}"
            expect.that(type(value) is float, reason, of="train", hint="tensor.item() is a float")


# --- the learning rate


@pytest.mark.points(3)
def test_the_learning_rate_of_each_step(student, rng):
    """Step s, counted from 0, has the learning rate lr_cosine_schedule(s, max, min, warmup_steps, steps)."""
    high = 0.2 + 0.3 * float(torch.rand((), generator=rng))
    for steps, warmup, low in [(9, 3, high / 7), (6, 0, 0.0), (7, 1, high / 2), (4, 4, 0.01), (3, 8, 0.01), (1, 0, 0.05)]:
        run = run_of(rng, steps=steps, warmup_steps=warmup, max_learning_rate=high, min_learning_rate=low)
        got = column(trained(student, **run), "learning_rates", steps)
        for step, lr in enumerate(got):
            if step < warmup:
                want, hint = high * step / warmup, "the warm-up is linear from 0: step s has max · s / warmup_steps"
            else:
                cosine = math.cos(math.pi * (step - warmup) / (steps - warmup))
                want = low + (high - low) * (1 + cosine) / 2
                hint = "max at step warmup_steps, then half a cosine that would reach min at step `steps`"
            expect.number(lr, want, of="train", tolerance=64 * torch.finfo(torch.float64).eps, hint=hint)


def test_every_group_gets_the_learning_rate(student, rng):
    """The optimizer steps once a step, with the learning rate of that step in every parameter group."""
    run = {**run_of(rng, steps=7, warmup_steps=2), "groups": 2}
    got = trained(student, **run)
    reported, given = column(got, "learning_rates", 7), got["steps"]["learning_rates"]
    expect.that(len(given) == 7, f"the optimizer stepped {len(given)} times in 7 steps", of="train")
    hint = 'group["lr"] = lr for every group of optimizer.param_groups, before optimizer.step()'
    for lr, groups in zip(reported, given, strict=True):
        same = all(isinstance(g, float | int) and abs(g - lr) <= EPS * lr for g in groups)
        expect.that(same, "a group steps with another learning rate than reported", of="train", hint=hint)


# --- loss and gradients


# Stays: the plain case; the tests of micro-batches take single steps.
@pytest.mark.points(3)
def test_the_loss_of_each_step(student, rng):
    """losses holds the mean cross-entropy of the next token over each step's batch, before the optimizer stepped."""
    run = run_of(rng)
    got = trained(student, **run)
    losses = column(got, "losses", 5)
    for step, windows in enumerate(batches(got, run)):
        parameters, _ = step_of(got, step)
        want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
        hint = "the target of a token is the token that follows it in the data; the mean is over all tokens of the batch"
        expect.number(losses[step], want, of="train", tolerance=tolerance(parameters, windows.numel()), hint=hint)


@pytest.mark.points(3)
def test_the_gradients_of_each_step(student, rng):
    """The optimizer steps with the gradients of this step's batch alone, whatever stood in .grad before."""
    for gradients_before in (False, True):
        run = run_of(rng)
        got = trained(student, **run, gradients_before=gradients_before)
        for step, windows in enumerate(batches(got, run)):
            hint = "backward adds to .grad: when is it set to zero?"
            check_gradients(got, step, windows, run["train_tokens"], hint=hint)


MICRO_BATCHES = [(7, 3), (6, 2), (5, 1), (4, 9), (9, 8)]


@pytest.mark.points(3)
def test_the_gradients_of_micro_batches(student, rng):
    """Micro-batches leave the gradients of the whole batch's mean loss, also where the last one is short."""
    for batch_size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=batch_size, micro_batch_size=micro)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = "a micro-batch counts by its windows: its mean loss times windows in it / batch_size"
        check_gradients(got, 0, windows, run["train_tokens"], hint=hint)


def test_the_loss_of_micro_batches(student, rng):
    """With micro-batches the loss of a step is the mean over the whole batch, also where the last one is short."""
    for batch_size, micro in MICRO_BATCHES:
        run = run_of(rng, steps=1, batch_size=batch_size, micro_batch_size=micro)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        parameters, _ = step_of(got, 0)
        want = float(true_loss(parameters, windows, run["train_tokens"]).detach())
        hint = "the mean over the batch, each micro-batch by its windows"
        (loss,) = column(got, "losses", 1)
        expect.number(loss, want, of="train", tolerance=tolerance(parameters, windows.numel()), hint=hint)


def test_micro_batches_are_small(student, rng):
    """No more than micro_batch_size windows go through the model at a time."""
    for batch_size, micro in MICRO_BATCHES:
        got = trained(student, **run_of(rng, batch_size=batch_size, micro_batch_size=micro))
        sizes = [len(got["forwards"]["tokens"][number]) for number in forwards(got, "train")]
        reason = f"{max(sizes, default=0)} windows go through the model at once with micro_batch_size {micro}"
        expect.that(0 < max(sizes, default=0) <= micro, reason, of="train", hint="x.split(micro_batch_size)")


# --- clipping


@pytest.mark.points(2)
def test_norms_before_clipping(student, rng):
    """grad_norms holds the norm of all gradients together, before clipping, and also where nothing is clipped."""
    for max_norm, unused in [(None, False), (0.05, False), (100.0, True), (None, True)]:
        run = run_of(rng, steps=1, max_grad_norm=max_norm, model={"unused": unused})
        got = trained(student, **run)
        (windows,) = batches(got, run)
        parameters, _ = step_of(got, 0)
        want = norm_of(true_gradients(parameters, windows, run["train_tokens"]))
        (norm,) = column(got, "grad_norms", 1)
        # Of n entries wrong by t each the norm is wrong by t · √n at most.
        atol = tolerance(parameters, windows.numel()) * math.sqrt(2 * VOCABULARY * WIDTH)
        hint = "the root of the sum of all squares, of all parameters, before they are scaled"
        expect.number(norm, want, of="train", tolerance=atol, hint=hint)


# Stays: the plain case, for whoever has no micro-batches yet.
@pytest.mark.points(2)
def test_long_gradients_are_clipped(student, rng):
    """Where the norm of all gradients is above max_grad_norm they are scaled down to it before the optimizer steps."""
    for max_norm in (0.1, 0.01):
        run = run_of(rng, steps=1, max_grad_norm=max_norm)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = "all gradients by the same factor, max_grad_norm / norm, between backward and step"
        check_gradients(got, 0, windows, run["train_tokens"], max_norm=max_norm, hint=hint)


def test_short_gradients_are_not_clipped(student, rng):
    """Where the norm of all gradients is below max_grad_norm, or that is None, they stay as they are."""
    for max_norm in (1000.0, None):
        run = run_of(rng, steps=1, max_grad_norm=max_norm, batch_size=1, context_length=1)
        run["parameters"] = [p * 5 for p in run["parameters"]]  # for a norm of about 10
        got = trained(student, **run)
        (windows,) = batches(got, run)
        check_gradients(got, 0, windows, run["train_tokens"], hint="clipping never makes a gradient longer")


# Stays: what clips each micro-batch reports another norm as well.
@pytest.mark.points(2)
def test_clipping_comes_after_all_micro_batches(student, rng):
    """With micro-batches it is the gradient of the whole batch that is clipped, once."""
    for max_norm in (0.1, 0.3):
        run = run_of(rng, steps=1, batch_size=6, micro_batch_size=2, max_grad_norm=max_norm)
        got = trained(student, **run)
        (windows,) = batches(got, run)
        hint = "first all micro-batches, then the norm, then the scaling"
        check_gradients(got, 0, windows, run["train_tokens"], max_norm=max_norm, hint=hint)


# --- batches


@pytest.mark.points(2)
def test_batches_are_windows_of_the_data(student, rng):
    """The model is given int64 windows of context_length neighbours, of which the last one has a target in the data."""
    for length, size in [(6, 5), (1, 3), (TRAIN - 1, 2), (TRAIN - 2, 4)]:
        run = run_of(rng, context_length=length, batch_size=size)
        got = trained(student, **run)
        dtypes = {tokens.dtype for tokens in got["forwards"]["tokens"]}
        expect.that(dtypes == {torch.int64}, "the model is given tokens that are not int64", of="train")
        for window in torch.cat(batches(got, run)):
            late = start_of(window, run["train_tokens"]) + length >= TRAIN
            reason = "a window lies where its last target would be outside the data"
            expect.that(not late, reason, of="train", hint="the starts are 0 … n - context_length - 1")


@pytest.mark.points(2)
def test_every_start_is_equally_likely(student, rng):
    """Over many batches each start from the first to the last gets its share, in any row."""
    size, steps, length = 100, 40, TRAIN - 9
    run = run_of(rng, context_length=length, batch_size=size, steps=steps)
    got = trained(student, **run)
    starts = torch.tensor([[start_of(w, run["train_tokens"]) for w in windows] for windows in batches(got, run)])
    share, draws = 1 / 9, size * steps
    for start in range(9):
        hint = "uniform over 0 … n - context_length - 1, both included, for every window by itself"
        fair = abs(int((starts == start).sum()) / draws - share) < 8 * math.sqrt(share * (1 - share) / draws)
        expect.that(fair, "of 9 starts one is drawn too seldom or too often", of="train", hint=hint)


def test_each_step_has_a_new_batch(student, rng):
    """Batches differ from step to step, and the windows of a batch from one another."""
    run = run_of(rng, steps=8, batch_size=32)
    got = trained(student, **run)
    starts = [[start_of(w, run["train_tokens"]) for w in windows] for windows in batches(got, run)]
    expect.that(len({tuple(s) for s in starts}) == 8, "a step has the same batch as another", of="train")
    apart = [{b - a for a, b in itertools.pairwise(s)} for s in starts]
    drawn = all(len(set(s)) > 3 and len(between) > 3 for s, between in zip(starts, apart, strict=True))
    expect.that(drawn, "the windows of a batch are not drawn one by one", of="train")


@pytest.mark.points(2)
def test_the_seed_decides(student, rng):
    """Two runs with the same seed and the same first weights are equal bit for bit, also with dropout; another seed differs."""
    run = run_of(rng, model={"dropout": 0.4}, optimizer="AdamW", batch_size=16)
    first, again = (trained(student, **run, seed_before=seed) for seed in (1, 2))
    hint = "torch.manual_seed(config.seed) at the start of a fresh run; are batches drawn from something that it decides?"
    same = column(first, "losses", 5) == column(again, "losses", 5)
    expect.that(same, "two runs with the same seed have different losses", of="train", hint=hint)
    other = trained(student, **changed(run, seed=run["config"]["seed"] + 1))
    differ = not torch.equal(torch.stack(batches(other, run)), torch.stack(batches(first, run)))
    expect.that(differ, "another seed gives the same batches", of="train", hint="is config.seed used for the batches?")


def test_data_of_any_integer_dtype(student, rng):
    """Tokens may lie in a read-only file, in any integer dtype."""
    for dtype in ("uint16", "uint8", "int32", "int64"):
        run = run_of(rng)
        got = readable(student.run(probes.trained_on_a_file, dtype=dtype, **run), run)
        for window in torch.cat(batches(got, run)):
            start_of(window, run["train_tokens"])


def test_only_the_batches_are_read(student, rng):
    """Training data may be far larger than memory: 2**50 tokens here, one of them 40,000, which int16 does not hold."""
    run = {key: value for key, value in run_of(rng, steps=2).items() if key != "train_tokens"}
    run["parameters"] = [torch.zeros(40_001, 2), torch.zeros(40_001, 2)]
    got, error = student.run(probes.trained_on_endless_data, token=40_000, length=2**50, **run)
    hint = "convert the windows of a batch, not the data"
    expect.that(got is not None and error is None, f"{error} on data far larger than memory", of="train", hint=hint)
    tokens = got["forwards"]["tokens"]
    right = len(tokens) > 0 and all(bool((t == 40_000).all()) for t in tokens)
    expect.that(right, "a token of uint16 data changed its value", of="train", hint="astype(np.int64)")


# --- evaluation


def evaluations(got, inputs):
    """For each evaluation the windows that the model was given, by the number of steps before it."""
    found = {}
    for number in forwards(got, "val"):
        tokens = got["forwards"]["tokens"][number].long()
        found.setdefault(got["forwards"]["steps_before"][number], []).append(tokens)
    return {key: torch.cat(parts) for key, parts in found.items()}


@pytest.mark.points(2)
def test_the_loss_of_an_evaluation(student, rng):
    """eval_losses[s + 1] is the mean loss on batches of val_tokens with the parameters after step s."""
    for every, count in [(2, 3), (3, 1)]:
        run = run_of(rng, steps=7, eval_every=every, eval_batches=count)
        got = trained(student, **run)
        keys = list(range(every, 8, every))
        losses, windows = eval_losses(got, keys), evaluations(got, run)
        parameters = [[p.double() for p in row] for row in [*got["steps"]["parameters"], got["parameters"]]]
        expect.that(len(parameters) == 8, "the optimizer did not step once a step", of="train")
        for key, loss in zip(keys, losses, strict=True):
            hint = "after optimizer.step(); the mean over eval_batches batches of batch_size windows"
            expect.that(key in windows, "no validation tokens went through the model after a step", of="train", hint=hint)
            reason = f"an evaluation of {count} batches has {len(windows[key])} windows"
            expect.that(len(windows[key]) == count * 4, reason, of="train", hint=hint)
            want = float(true_loss(parameters[key], windows[key], run["val_tokens"]))
            atol = tolerance(parameters[key], windows[key].numel())
            expect.number(loss, want, of="train", tolerance=atol, hint=hint)


def test_every_evaluation_uses_the_same_batches(student, rng):
    """Evaluations of a run use the same eval_batches batches, which differ from one another."""
    run = run_of(rng, steps=4, batch_size=20, context_length=3, eval_every=1, eval_batches=15)
    windows = evaluations(trained(student, **run), run)
    expect.that(len(windows) == 4, "no evaluation where one was asked for", of="train")
    hint = "draw them anew each time from the same seed, or once"
    starts = [sorted(start_of(w, run["val_tokens"]) for w in found) for found in windows.values()]
    expect.that(all(s == starts[0] for s in starts), "two evaluations use different batches", of="train", hint=hint)
    counts = [starts[0].count(start) for start in set(starts[0])]
    again = all(count % 15 == 0 for count in counts)  # by chance: once in more than 15**12 times
    expect.that(not again, "an evaluation uses one batch again and again", of="train", hint="eval_batches different batches")


@pytest.mark.points(2)
def test_modes_of_training_and_evaluation(student, rng):
    """Training runs in training mode, evaluation in eval mode and without gradients, and training goes on as before."""
    for eval_before in (False, True):
        got = trained(student, **run_of(rng, eval_every=2, eval_batches=2), eval_before=eval_before)
        seen = got["forwards"]
        training, evaluation = forwards(got, "train"), forwards(got, "val")
        expect.that(len(evaluation) > 0, "no validation tokens went through the model", of="train")
        hint = "model.eval() before an evaluation, model.train() before training and after it"
        modes = {seen["modes"][number] for number in training}
        expect.that(modes == {"training"}, "a training step does not run in training mode", of="train", hint=hint)
        modes = {seen["modes"][number] for number in evaluation}
        expect.that(modes == {"eval"}, "an evaluation does not run in eval mode", of="train", hint=hint)
        without = not any(seen["grad_enabled"][number] for number in evaluation)
        expect.that(without, "an evaluation records gradients", of="train", hint="torch.no_grad()")


def check_undisturbed(student, run, hint):
    """Training with evaluations is bit for bit training without."""
    without = trained(student, **changed(run, eval_every=0))
    expected = column(without, "losses", 5)
    for every, count in [(1, 3), (2, 1)]:
        got = trained(student, **changed(run, eval_every=every, eval_batches=count))
        expect.that(len(forwards(got, "val")) > 0, "no validation tokens went through the model", of="train")
        same = column(got, "losses", 5) == expected
        expect.that(same, "losses of training steps differ with evaluations between them", of="train", hint=hint)
        same_parameters(got["parameters"], without["parameters"], "a parameter after a run with evaluations", hint=hint)


# Stays: the plain case; the test below asks for more.
@pytest.mark.points(2)
def test_evaluation_changes_no_training(student, rng):
    """A run with evaluations takes, bit for bit, the steps of one without: batches, dropout, optimizer."""
    run = run_of(rng, model={"dropout": 0.4}, optimizer="AdamW", max_grad_norm=0.1)
    check_undisturbed(student, run, "does an evaluation draw from the generator that training draws from?")


def test_evaluation_puts_the_random_state_back(student, rng):
    """That holds as well where the model draws random numbers in eval mode."""
    run = run_of(rng, model={"noise": 0.1})
    check_undisturbed(student, run, "torch.random.fork_rng, or get_rng_state and set_rng_state around the evaluation")


# --- lower precision, and numbers that are none


@pytest.mark.points(2)
def test_autocast_keeps_float32(student, rng):
    """Under autocast products are of its dtype; parameters, gradients and the optimizer's state stay float32."""
    for dtype, micro in [(torch.bfloat16, None), (torch.float16, 3)]:
        run = run_of(rng, autocast_dtype=dtype, micro_batch_size=micro, optimizer="AdamW")
        got = trained(student, **run, watch={"keep_logits": True})
        hint = "with torch.autocast(device_type, dtype=...): around forward and loss, and the model left as it is"
        dtypes = {x.dtype for x in got["forwards"]["logits"]}
        expect.that(dtypes == {dtype}, "logits are not of autocast_dtype", of="train", hint=hint)
        kept = {"parameters": [got["parameters"], *got["steps"]["parameters"]], "gradients": got["steps"]["gradients"]}
        kept["the optimizer's state"] = [[torch.empty(0, dtype=dtype) for dtype in got["state_dtypes"]]]
        for name, rows in kept.items():
            found = {x.dtype for row in rows for x in row if isinstance(x, Tensor)}
            expect.that(found == {torch.float32}, f"{name} do not stay float32 under autocast", of="train", hint=hint)


def test_the_loss_under_autocast(student, rng):
    """The cross-entropy of bfloat16 logits is computed in float32, in which autocast runs it."""
    run = run_of(rng, steps=8, autocast_dtype=torch.bfloat16)
    got = trained(student, **run, watch={"keep_logits": True})
    losses = column(got, "losses", 8)
    for step, windows in enumerate(batches(got, run)):
        logits = logits_of(got, step)
        reason = "the model's logits are not used as they are"
        expect.that(logits.shape == (*windows.shape, VOCABULARY), reason, of="train")
        want = F.cross_entropy(logits.flatten(0, 1), targets(windows, run["train_tokens"]).flatten())
        # The logits are given: their log of a sum of exponentials, and a mean.
        atol = EPS * (VOCABULARY + windows.numel() + 8 * (1 + float(logits.abs().max())))
        expect.number(losses[step], float(want), of="train", tolerance=atol, hint="the loss belongs inside autocast, too")


def logits_of(got, step):
    """What the model answered to the training windows of a step, in float64."""
    asked = got["forwards"]
    expect.that(len(asked["logits"]) == len(asked["tokens"]), "logits without tokens", of="train")
    return torch.cat([asked["logits"][n].double() for n in forwards(got, "train") if asked["steps_before"][n] == step])


def test_evaluation_under_autocast(student, rng):
    """Evaluation runs under the same autocast as training; without autocast_dtype neither does."""
    for dtype, logits in [(torch.bfloat16, torch.bfloat16), (None, torch.float32)]:
        run = run_of(rng, autocast_dtype=dtype, eval_every=2)
        got = trained(student, **run, watch={"keep_logits": True})
        found = {got["forwards"]["logits"][n].dtype for n in forwards(got, "val") if n < len(got["forwards"]["logits"])}
        expect.that(found == {logits}, "an evaluation does not run under the autocast asked for", of="train")


@pytest.mark.points(2)
def test_a_loss_that_is_no_number_ends_the_run(student, rng):
    """A NaN or infinite loss is a FloatingPointError that names the step, and the optimizer does not take that step."""
    step = integer(rng, 11, 19)
    run = run_of(rng, steps=20)
    column(trained(student, **run), "losses", 20)
    for infinite, micro in [(False, None), (True, None), (False, 3)]:
        watch = {"break_at": step, "infinite": infinite}
        got = trained(student, **changed(run, micro_batch_size=micro), watch=watch)
        hint = "math.isfinite(loss), between the loss and optimizer.step()"
        kind = "infinite" if infinite else "NaN"
        expect.that(got["error"] is not None, f"no FloatingPointError although a loss is {kind}", of="train", hint=hint)
        named = re.search(rf"\b{step}\b", got["error"] or "") is not None
        expect.that(named, "the FloatingPointError does not name the step, counted from 0", of="train")
        taken = len(got["steps"]["parameters"])
        expect.that(taken == step, f"the optimizer steps although the loss is {kind}", of="train", hint=hint)


# --- checkpoints


def same_parameters(got, expected, name, *, hint=None):
    """Parameters that are equal bit for bit."""
    expect.that(len(got) == len(expected), "other parameters than before", of="train")
    for p, want in zip(got, expected, strict=True):
        expect.tensor(p, want, of="train", name=name, hint=hint)


def check_resumed(got, *, every, steps, of_step):
    """Each run that was killed, and begun again, ends as the one that was not: bit for bit, from its first step on."""
    whole, evaluation = got["whole"], forwards(got["whole"], "val")  # where the checkpoint may come before or after
    hint = "what does a step depend on that the checkpoint does not hold?"
    for number, parameters in enumerate(got["parameters"]):
        result = check_result(got["results"][number])
        at = of_step[number]
        first, kill = result["first_step"], f"killed in a forward pass after {at} steps and begun again, "
        expect.that(type(first) is int and 0 <= first <= at, kill + "first_step is wrong", of="train")
        for name in ("losses", "learning_rates", "grad_norms"):
            same = column(result, name, steps - first) == column(whole, name, steps)[first:]
            expect.that(same, kill + f"{name} differ from those of a run that was not killed", of="train", hint=hint)
        end = got["whole"]["parameters"]
        same_parameters(parameters, end, "a parameter at the end of a run that was killed and begun again", hint=hint)
        allowed = {at - at % every} | ({at - 1 - (at - 1) % every} if number in evaluation else set())
        when = "a checkpoint after step s where s + 1 is a multiple of checkpoint_every; it holds s + 1"
        expect.that(first in allowed, kill + f"it goes on from step {first}", of="train", hint=when)


def check_killed(student, run):
    """Kill a run at every forward pass and compare."""
    config = {"checkpoint_path": "checkpoint", **run["config"]}
    got = student.run(probes.killed, **{**run, "config": config})
    of_step = readable(got["whole"], run)["forwards"]["steps_before"]
    expect.that(len(of_step) >= config["steps"], "fewer forward passes than steps", of="train")
    expect.that(len(got["results"]) == len(of_step) == len(got["parameters"]), "not every run came back", of="train")
    check_resumed(got, every=config["checkpoint_every"], steps=config["steps"], of_step=of_step)


@pytest.mark.points(5)
def test_killed_anywhere_it_ends_the_same(student, rng):
    """Killed in any forward pass and run again, it ends bit-equal to a run that was never stopped."""
    run = run_of(rng, optimizer="AdamW", steps=6, warmup_steps=2, max_grad_norm=0.1)
    check_killed(student, changed(run, checkpoint_every=2, eval_every=3))


@pytest.mark.points(3)
def test_killed_with_dropout_it_ends_the_same(student, rng):
    """The same with dropout: the random state goes on from the checkpoint as well."""
    check_killed(student, run_of(rng, model={"dropout": 0.5}, steps=4, checkpoint_every=1))


def test_evaluations_go_on_after_a_kill(student, rng):
    """After a resume the evaluations that are left give the losses that they would have given."""
    run = run_of(rng, steps=6, checkpoint_every=1, checkpoint_path="checkpoint", eval_every=2)
    got = student.run(probes.killed, at=[4], **run)  # in step 3: an evaluation comes between steps 1 and 2
    expect.that(len(got["results"]) == 1, "not every run came back", of="train")
    whole, result = check_result(got["whole"]), check_result(got["results"][0])
    for losses in (whole["eval_losses"], result["eval_losses"]):
        plain = type(losses) is dict and all(type(key) is int for key in losses)
        expect.that(plain, "eval_losses do not map integers to losses", of="train")
    expect.that(type(result["first_step"]) is int, "first_step is no integer", of="train")
    reason = f"{len(result['eval_losses'])} evaluations after a resume at step {result['first_step']} of 6"
    hint = "s + 1 is a multiple of eval_every, with s counted from the start of the whole run"
    expect.that(len(result["eval_losses"]) == 3 - result["first_step"] // 2, reason, of="train", hint=hint)
    for key, loss in result["eval_losses"].items():
        same = key in whole["eval_losses"] and finite(loss, "eval_losses") == finite(whole["eval_losses"][key], "eval_losses")
        hint = "every evaluation uses the same batches, before a kill and after it"
        expect.that(same, "an evaluation after a resume gives another loss", of="train", hint=hint)


@pytest.mark.points(2)
def test_killed_while_it_writes_a_checkpoint(student, rng):
    """Killed in the middle of writing a checkpoint, it goes on from the one before."""
    run = run_of(rng, optimizer="AdamW", steps=6, checkpoint_every=2, checkpoint_path="checkpoint")
    run["parameters"] = [torch.randn(4000, WIDTH, generator=rng) for _ in range(2)]
    whole, again = student.run(probes.killed_while_writing, kill_at=3, **run)
    hint = "write to another file beside it, and os.replace it when it is complete"
    first = check_result(again)["first_step"]
    expect.that(type(first) is int and first >= 2, "what was saved before is lost", of="train", hint=hint)
    same = column(again, "losses", 6 - first) == column(whole, "losses", 6)[first:]
    expect.that(same, "it ends with other losses than a run that was never stopped", of="train", hint=hint)


def test_a_finished_run_is_not_run_again(student, rng):
    """A checkpoint is written after the last step too; run again, it takes no step and leaves the final parameters."""
    for every in (0, 4):
        run = run_of(rng, optimizer="AdamW", steps=6, checkpoint_path="checkpoint", checkpoint_every=every)
        anew = {"parameters": [torch.zeros_like(p) for p in run["parameters"]]}
        done, _ = student.run(probes.one_after_the_other, runs=[{}, anew], **run)
        expect.that(len(done) == 2, "not every run came back", of="train")
        first, second = done
        column(first, "losses", 6)
        hint = "a checkpoint after the last step as well, whether or not checkpoint_every divides it"
        began = check_result(second)["first_step"]
        expect.that(
            type(began) is int and began == 6,
            f"run again after its last step, it begins with step {began}",
            of="train",
            hint=hint,
        )
        column(second, "losses", 0)
        same_parameters(second["parameters"], first["parameters"], "a parameter after a finished run was run again", hint=hint)


# --- the log


def check_log(rows, steps):
    """One line a step, in order, none twice."""
    for row in rows:
        expect.that(
            type(row) is list and len(row) == 4, "a line of the log is not a JSON object", of="train", hint="json.dumps"
        )
    reason = "the log does not hold one line a step, in order"
    hint = 'the key "step" counts from 0; what was logged before, and is done again, is cut off'
    expect.that([row[0] for row in rows] == list(range(steps)), reason, of="train", hint=hint)


@pytest.mark.points(2)
def test_one_line_a_step(student, rng):
    """The log holds a JSON line a step with step, loss, lr and grad_norm; a fresh run begins a new one."""
    run = run_of(rng, log_path="log", warmup_steps=2, max_grad_norm=0.1, eval_every=2)
    runs = [changed(run, steps=steps, seed=steps) for steps in (6, 4)]
    done, logs = student.run(probes.one_after_the_other, runs=runs)
    expect.that(len(done) == len(logs) == 2, "a run did not come back", of="train")
    for got, rows, steps in zip(done, logs, (6, 4), strict=True):
        check_log(rows, steps)
        for place, name in enumerate(("losses", "learning_rates", "grad_norms"), start=1):
            reason = f"{probes.KEYS[place]} in the log differs from {name} in the result"
            expect.that([row[place] for row in rows] == column(got, name, steps), reason, of="train")


def test_a_step_that_is_not_taken_is_not_in_the_log(student, rng):
    """A run that ends with a FloatingPointError has logged the steps before it, and not that one."""
    run = run_of(rng, log_path="log")
    _, logs = student.run(probes.one_after_the_other, runs=[{"watch": {"break_at": 3}}], **run)
    check_log(logs[-1] if logs else [], 3)


# Stays: without it a student would be told of lines that are missing after a resume, which is another thing.
def test_each_line_is_written_at_once(student, rng):
    """A run that is killed has logged every step that it had taken."""
    kills = [1, 4]  # the forward pass of step s is number s
    got = student.run(probes.killed, at=kills, **run_of(rng, log_path="log"))
    expect.that(len(got["logs_when_killed"]) == len(kills), "not every run came back", of="train")
    for taken, rows in zip(kills, got["logs_when_killed"], strict=True):
        hint = "flush after every line, or close the file"
        expect.that(len(rows) == taken, f"killed after {taken} steps, the log has {len(rows)} lines", of="train", hint=hint)


# Stays: this is the kill itself; the test below has a log that looks like one.
@pytest.mark.points(2)
def test_no_line_twice_after_a_kill(student, rng):
    """After a kill and a resume the log holds one line a step, as if there had been no kill."""
    run = run_of(rng, steps=6, log_path="log", checkpoint_every=2, checkpoint_path="checkpoint")
    kills = [1, 3, 4]
    got = student.run(probes.killed, at=kills, **run)
    expect.that(len(got["logs"]) == len(kills), "not every run came back", of="train")
    for rows in got["logs"]:
        check_log(rows, 6)


def test_a_line_that_was_not_finished(student, rng):
    """A last line that was not finished is cut off when the run goes on."""
    run = run_of(rng, log_path="log", checkpoint_path="checkpoint")
    for leave in ('{"step": 4, "loss": 2.', '{"step": 4, "loss": 2.5, "lr": 0.1, "grad_norm": 0.5}', '{"st'):
        runs = [changed(run, steps=steps) for steps in (4, 7)]
        _, logs = student.run(probes.one_after_the_other, runs=runs, leave=leave)
        check_log(logs[-1] if logs else [], 7)


# --- all of it together


# Stays: the tests above look at single steps; this one shows a student what they are for, and how near they came.
@pytest.mark.points(3)
def test_it_learns_a_known_language(student, rng):
    """Trained on a language whose entropy is known, a bigram model comes within 0.05 nats a token of it."""
    chain = torch.softmax(2 * torch.randn(6, 6, generator=rng, dtype=torch.float64), dim=1)
    run = run_of(rng, optimizer="AdamW", steps=150, batch_size=16, context_length=16, warmup_steps=10)
    run = changed(run, max_learning_rate=0.1, min_learning_rate=0.001, max_grad_norm=1.0)
    run["parameters"] = [torch.randn(6, 6, generator=rng) * 0.1 for _ in range(2)]
    run["train_tokens"] = text_of(chain, 20_000, rng)
    got = readable(student.run(probes.trained_on_a_file, dtype="uint16", **run), run)
    embedding, head = (p.double() for p in got["parameters"])
    entropy, reached = (loss_on_average(chain, p) for p in (chain, torch.softmax(embedding @ head.T, dim=1)))
    facts = [("reached", f"{reached:.3f} nats a token"), ("possible", f"{entropy:.3f}, asked for {entropy + 0.05:.3f}")]
    expect.that(reached <= entropy + 0.05, "after 150 steps the model is far from the best", of="train", facts=facts)


def text_of(chain, length, rng):
    """Tokens of a Markov chain: row i of `chain` holds the probabilities of what follows token i."""
    limits = chain.cumsum(dim=1).tolist()
    draws = torch.rand(length, generator=rng, dtype=torch.float64).tolist()
    tokens = [0]
    for draw in draws[1:]:
        row = limits[tokens[-1]]
        tokens.append(sum(draw >= limit for limit in row[:-1]))
    return np.array(tokens)


def loss_on_average(chain, predicted):
    """The mean cross-entropy of `predicted` over endless text of the chain; the entropy, where it is the chain itself."""
    weights = torch.linalg.matrix_power(chain, 1024)[0]  # how often each token comes
    return float((weights[:, None] * chain * -predicted.log()).sum())


# --- wrong calls


@pytest.mark.points(2)
def test_wrong_calls_are_refused(student, rng):
    """A field of the config that is out of range is a ValueError that names it."""
    run = run_of(rng)
    edge = changed(run, steps=0, context_length=TRAIN - 1, batch_size=1, micro_batch_size=1, warmup_steps=0)
    column(trained(student, **edge), "losses", 0)
    for field, values in [
        ("steps", [-1]),
        ("batch_size", [0, -3]),
        ("context_length", [0, TRAIN, TRAIN + 5]),
        ("micro_batch_size", [0, -1]),
        ("warmup_steps", [-1]),
        ("max_grad_norm", [0.0, -1.0]),
        ("eval_every", [-1]),
        ("checkpoint_every", [-2]),
    ]:
        for value in values:
            with expect.raises(ValueError, of="train", when=f"{field} is {value}", naming=field):
                trained(student, **changed(run, **{field: value}))


def test_what_goes_together_is_asked_for(student, rng):
    """eval_every without val_tokens, or checkpoint_every without checkpoint_path: a ValueError names what is missing."""
    run = run_of(rng, eval_every=2)
    column(trained(student, **run), "losses", 5)
    hint = "checked before the first step"
    for tokens in (None, run["val_tokens"][:6]):
        with expect.raises(ValueError, of="train", when="val_tokens are missing or short", naming="val_tokens", hint=hint):
            trained(student, **{**run, "val_tokens": tokens})
    with expect.raises(ValueError, of="train", when="eval_batches is 0", naming="eval_batches", hint=hint):
        trained(student, **changed(run, eval_batches=0))
    with expect.raises(ValueError, of="train", when="checkpoint_path is missing", naming="checkpoint_path", hint=hint):
        trained(student, **changed(run, eval_every=0, checkpoint_every=2))
