"""training_loop: the four stages of a training loop. Handout §11.1.

The stages are a plain loop, micro-batches and clipping, log and evaluation, and resume.
`python -m pytest tests/public -k "training_loop and stage_1"` runs the tests of one stage.
"""

import contextlib
import json
import math

import numpy as np
import pytest
import torch
from torch import nn

from kit import expect

TOKENS = np.random.default_rng(0).permutation(np.arange(200) % 8)
EXAMPLE = {
    "steps": 6,
    "batch_size": 4,
    "context_length": 5,
    "max_learning_rate": 1.0,
    "min_learning_rate": 0.1,
    "warmup_steps": 2,
}


# A learning rate so small that no loss changes.
STILL = {"max_learning_rate": 1e-30, "min_learning_rate": 0.0, "warmup_steps": 0}


class Table(nn.Module):
    """A table with the next token's logits, one row per token.

    The model raises KeyboardInterrupt at forward pass `stop_at`, to stop its run. Its logits at
    forward pass `not_finite_at` have a loss of `value`.
    """

    def __init__(self, stop_at=None, *, not_finite_at=None, value=0.0, dropout=0.0):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.zeros(8, 8), freeze=False)
        self.dropout = nn.Dropout(dropout)
        self.forwards, self.largest, self.stop_at = 0, 0, stop_at
        self.not_finite_at, self.value = not_finite_at, value
        self.trained_in_eval_mode = self.evaluated_in_training_mode = False

    def forward(self, tokens):
        self.forwards += 1
        self.largest = max(self.largest, len(tokens))
        self.trained_in_eval_mode |= torch.is_grad_enabled() and not self.training
        self.evaluated_in_training_mode |= self.training and not torch.is_grad_enabled()
        if self.forwards - 1 == self.stop_at:
            raise KeyboardInterrupt
        logits = self.dropout(self.table(tokens))
        if self.forwards - 1 == self.not_finite_at:
            logits = logits + torch.tensor([-self.value, 0] * 4)  # one of -inf has an infinite loss
        return logits


def lines_of(log):
    """The JSON lines of a log."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def run(student, *, model=None, stop_at=None, optimizer=torch.optim.AdamW, **config):
    """Run `train` on TOKENS and return its result and the model. Dropout is that of seed 7."""
    torch.manual_seed(7)
    model = Table(stop_at) if model is None else model
    optimizer = optimizer(model.parameters(), lr=0.0)
    config = student.training.TrainConfig(**{**EXAMPLE, **config})
    return student.training.train(model, optimizer, TOKENS, config, val_tokens=TOKENS[:50]), model


def test_stage_1_learning_rates_of_the_example(student):
    """max 1, min 0.1, 2 steps of warm-up, 6 steps: 0, 0.5, 1, 0.8682, 0.55, 0.2318."""
    result, _ = run(student)
    name = "the number of learning rates"
    expect.value(len(result.learning_rates), 6, of="train", name=name, inputs="steps 6")
    hints = {0: {0.5: "step s has the rate of iteration s: the first is 0"}}
    hints[2] = {0.775: "the cosine begins at the end of the warm-up"}
    inputs = "max 1.0, min 0.1, warmup_steps 2, steps 6"
    for step, want in enumerate([0, 0.5, 1, 0.868198, 0.55, 0.231802]):
        got, name = result.learning_rates[step], f"the learning rate of step {step}"
        more = {"name": name, "inputs": inputs, "hints": hints.get(step, {})}
        expect.number(got, want, of="train", tolerance=1e-6, **more)


def test_stage_1_every_group_gets_the_learning_rate(student):
    """Both parameter groups end with the last step's learning rate."""
    model, config = Table(), student.training.TrainConfig(**EXAMPLE)
    groups = [[torch.nn.Parameter(torch.zeros(1))], list(model.parameters())]
    optimizer = torch.optim.SGD([{"params": group} for group in groups], lr=5.0)
    result = student.training.train(model, optimizer, TOKENS, config)
    for number, group in enumerate(optimizer.param_groups):
        name = f'optimizer.param_groups[{number}]["lr"] after the last of 6 steps'
        want = result.learning_rates[-1]
        hints = {5.0: "each step sets the rate of every parameter group"}
        expect.number(group["lr"], want, of="train", tolerance=1e-6, name=name, hints=hints)


def test_stage_1_the_first_loss_is_that_of_a_guess(student):
    """With logits of 0, the model guesses among 8 tokens: its loss is log 8 = 2.0794."""
    result, _ = run(student)
    hints = {
        3.0: "the loss is in nats: log 8, with the natural logarithm",
        20 * math.log(8): "the mean over the tokens of the batch, not their sum",
        5 * math.log(8): "the mean over the tokens of a window, too",
        4 * math.log(8): "the mean over the windows of the batch, too",
    }
    loss, name = result.losses[0], "the loss of step 0"
    expect.number(loss, math.log(8), of="train", tolerance=1e-5, name=name, hints=hints)


class Successor(nn.Module):
    """A model that is sure that the token t + 1 follows the token t: its logit is 20."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(20 * torch.eye(8).roll(1, dims=1))
        self.bias = nn.Parameter(torch.zeros(8))
        self.dtypes, self.autocast = set(), set()

    def forward(self, tokens):
        self.dtypes.add(tokens.dtype)
        self.autocast.add(torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"))
        return self.table[tokens] + self.bias


def step(student, tokens, **config):
    """Take one step of SGD with learning rate 1 from a Successor; return the result and it."""
    model = Successor()
    rates = {"max_learning_rate": 1.0, "min_learning_rate": 1.0, "warmup_steps": 0}
    config = student.training.TrainConfig(**{**EXAMPLE, **rates, "steps": 1, **config})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    return student.training.train(model, optimizer, tokens, config, val_tokens=tokens), model


SUCCESSORS = np.arange(200) % 8
THREES = np.full(200, 3)


def test_stage_1_the_target_is_the_next_token(student):
    """In 0, 1, … 7, 0, 1, … a model that predicts the successor has almost no loss.

    Against its own input, the model would have a loss of 20.
    """
    result, model = step(student, SUCCESSORS)
    expect.value(model.dtypes, {torch.int64}, of="train", name="the dtypes of the batches")
    inputs = "a model that is sure of the next token"
    hint = "20 is the loss of y = x: is y the same windows one token later?"
    loss, name = result.losses[0], "the loss of step 0"
    hint = hint if round(loss) == 20 else None
    expect.number(loss, 0, of="train", tolerance=1e-3, name=name, inputs=inputs, hint=hint)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_stage_1_a_loss_that_is_not_finite_ends_the_run(student, wrong):
    """The loss of step 2 is NaN or infinite: FloatingPointError, and the weights stay finite."""
    model = Table(not_finite_at=2, value=wrong)
    config = student.training.TrainConfig(**EXAMPLE)
    with expect.raises(FloatingPointError, of="train", when=f"the loss is {wrong}"):
        student.training.train(model, torch.optim.AdamW(model.parameters()), TOKENS, config)
    finite = bool(model.table.weight.isfinite().all())
    expect.that(finite, "the weights are spoiled: look before the optimizer steps", of="train")


def test_stage_1_the_seed_decides(student):
    """Two runs with one seed are equal; with another seed they are not."""
    once, again, *others = (run(student, seed=seed)[0].losses for seed in (0, *range(9)))
    hint = "does config.seed decide the batches?"
    name = "the losses of a second run with the same seed"
    expect.value(again, once, of="train", name=name, hint=hint)
    differ = any(other != once for other in others)  # a hash of two seeds may be the same
    expect.that(differ, "runs with the seeds 0 to 8 have equal losses", of="train")


def test_stage_1_gradients_of_earlier_steps_do_not_count(student):
    """With only one possible window and a tiny learning rate, every step has the same gradients."""
    result, _ = run(student, context_length=len(TOKENS) - 1, batch_size=1, steps=2, **STILL)
    first, second = result.grad_norms
    hints = {2 * first: "backward adds to .grad: when is it set to zero?"}
    name = "the norm in step 1, with the gradients of step 0"
    expect.number(second, first, of="train", tolerance=1e-6, name=name, hints=hints)


def test_stage_2_micro_batches_change_only_rounding(student):
    """A batch of 4 windows in micro-batches of 3 and 1 gives the same run as the whole batch."""
    steps = []

    class Counting(torch.optim.SGD):
        def step(self, closure=None):
            steps.append(None)
            return super().step(closure)

    whole, _ = run(student, optimizer=torch.optim.SGD)
    parts, model = run(student, optimizer=Counting, micro_batch_size=3)
    reason = f"{model.largest} windows are in the model at once with micro_batch_size 3"
    expect.that(model.largest <= 3, reason, of="train", hint="x.split(micro_batch_size)")
    hints, name = {12: "the micro-batches of a step share one optimizer.step()"}, "optimizer steps"
    expect.value(len(steps), 6, of="train", name=f"the number of {name}", hints=hints)
    more = {"of": "train", "tolerance": 1e-4, "inputs": "micro-batches of 3 windows and 1"}
    weight = "the weight of a micro-batch is its number of windows"
    mean = "the loss of a step is the mean over all of its windows"
    numbers = (whole.losses, parts.losses, whole.grad_norms, parts.grad_norms)
    for step, (loss, got_loss, norm, got_norm) in enumerate(zip(*numbers, strict=True)):
        expect.number(got_loss, loss, name=f"the loss of step {step}", hint=mean, **more)
        expect.number(got_norm, norm, name=f"the norm of step {step}", hint=weight, **more)


@pytest.mark.parametrize(("limit", "want"), [(None, 2), (3.0, 2), (0.5, 0.5)])
def test_stage_2_all_gradients_are_clipped_together_and_once(student, limit, want):
    """Every token is 3, and the model is sure of 4: both gradients are 1 at 4 and -1 at 3.

    Each has the norm √2, both together have the norm 2. With learning rate 1, the weights move by
    the clipped gradients.
    """
    inputs = f"two gradients of norm √2, max_grad_norm {limit}, in 4 micro-batches"
    result, model = step(student, THREES, max_grad_norm=limit, micro_batch_size=1)
    norm, name = result.grad_norms[0], "the norm of all gradients together, before clipping"
    hints = {}
    if limit == 0.5:
        hints[0.5] = "clip once, after the last micro-batch, and note the norm before it"
    expect.number(norm, 2, of="train", tolerance=1e-5, name=name, inputs=inputs, hints=hints)
    new = Successor()
    moved = [p - q for p, q in zip(model.parameters(), new.parameters(), strict=True)]
    got = float(torch.cat([x.flatten() for x in moved]).norm().detach())
    name = "the distance that the weights move, with learning rate 1"
    hints = {
        None: {1: "None is no limit"},
        3.0: {3: "gradients that are short enough stay as they are"},
        0.5: {2**-0.5: "one norm for all gradients together", 2: "clip before optimizer.step()"},
    }[limit] | {0: "is the learning rate set before the step?"}
    expect.number(got, want, of="train", tolerance=1e-5, name=name, inputs=inputs, hints=hints)


def test_stage_2_autocast_around_the_forward_pass(student):
    """With autocast_dtype bfloat16, the model runs under autocast and stays float32."""
    _, model = step(student, SUCCESSORS, autocast_dtype=torch.bfloat16, eval_every=1)
    name = "torch.get_autocast_dtype in the forward passes"
    bf16, hint = torch.bfloat16, "the forward passes of an evaluation run under autocast, too"
    hints = [({False}, "with torch.autocast(…) is around a forward pass"), ({False, bf16}, hint)]
    expect.value(model.autocast, {bf16}, of="train", name=name, hints=hints)
    hints = [(bf16, "autocast converts in the forward pass; the model is not converted")]
    dtype, name = model.table.dtype, "the dtype of the weights"
    expect.value(dtype, torch.float32, of="train", name=name, hints=hints)
    _, model = step(student, SUCCESSORS)
    expect.value(model.autocast, {False}, of="train", name="autocast without autocast_dtype")


def test_stage_3_evaluation_changes_no_training(student):
    """With eval_every 3, evaluations come after 3 and after 6 steps.

    They do not change the losses of training.
    """
    (with_evaluation, model), (without, _) = run(student, eval_every=3), run(student)
    keys = sorted(with_evaluation.eval_losses)
    name, hints = "the keys of eval_losses", [([2, 5], "a key is the number of finished steps")]
    expect.value(keys, [3, 6], of="train", name=name, inputs="eval_every 3, steps 6", hints=hints)
    name = "losses, with and without evaluations"
    hint = "does the evaluation draw from training's generator?"
    expect.value(with_evaluation.losses, without.losses, of="train", name=name, hint=hint)
    hint = "is training mode back after an evaluation, and are its gradients disabled?"
    reason = "a forward pass with gradients runs in eval mode"
    expect.that(not model.trained_in_eval_mode, reason, of="train", hint=hint)


class Evaluated(Table):
    """A Table that keeps the windows of evaluations. Its loss at token t is log(1 + 7 / exp(t))."""

    def __init__(self):
        super().__init__()
        self.table.weight.data = torch.diag(torch.arange(8.0)).roll(1, dims=1)
        self.windows = []
        self.keep = self.windows.append  # in a copy of the model, too

    def forward(self, tokens):
        if not (self.training and torch.is_grad_enabled()):
            self.keep(tokens)
        return super().forward(tokens)


def test_stage_3_an_evaluation_by_hand(student):
    """The loss of 3 batches of 4 windows is the mean over their tokens; the batches differ.

    The token t + 1 follows t, and the step before the evaluation moves nothing.
    """
    model, settings = Evaluated(), {"steps": 1, "eval_every": 1, "eval_batches": 3}
    config = student.training.TrainConfig(**{**EXAMPLE, **STILL, **settings, "micro_batch_size": 2})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    result = student.training.train(model, optimizer, SUCCESSORS, config, val_tokens=SUCCESSORS)
    count = sum(map(len, model.windows))
    expect.value(count, 12, of="train", name="the number of windows in 3 batches of 4")
    windows = torch.cat(model.windows)
    want = float((1 + 7 / windows.exp()).log().mean())
    got, hint = result.eval_losses[1], "the mean over all batches of the evaluation"
    name = "the loss of the evaluation"
    expect.number(got, want, of="train", tolerance=1e-5, name=name, hint=hint)
    first, *others = windows.split(4)
    again = all(torch.equal(batch, first) for batch in others)
    hint = "use eval_batches different batches"
    expect.that(not again, "an evaluation uses one batch again and again", of="train", hint=hint)


def test_stage_3_evaluations_can_be_compared(student):
    """With a tiny learning rate and dropout, every evaluation gives the same loss.

    The model is in eval mode, and the batches are the same each time.
    """
    model = Table(dropout=0.5)
    model.table.weight.data = torch.arange(64.0).reshape(8, 8) % 5
    result, _ = run(student, model=model, eval_every=2, **STILL)
    is_right = not model.evaluated_in_training_mode
    expect.that(is_right, "an evaluation runs in training mode", of="train", hint="model.eval()")
    first, *others = [loss for _, loss in sorted(result.eval_losses.items())]
    hint = "are the batches of an evaluation the same each time?"
    name = "the losses after 4 and 6 steps"
    expect.value(others, [first, first], of="train", name=name, hint=hint)


def test_stage_3_evaluations_leave_torchs_generator_as_it_was(student):
    """Dropout drops the same entries with and without evaluations."""
    runs = [run(student, model=Table(dropout=0.5), eval_every=n) for n in (2, 0)]
    (with_evaluations, model), (without, _) = runs
    name = "losses of a model with dropout, with and without evaluations"
    hint = "put torch's random state back after an evaluation"
    hint = "is training mode back after an evaluation?" if model.trained_in_eval_mode else hint
    expect.value(with_evaluations.losses, without.losses, of="train", name=name, hint=hint)


class Reading(Table):
    """A Table that counts the lines of the log in each forward pass."""

    def __init__(self, log):
        super().__init__()
        self.log, self.lines = log, []

    def forward(self, tokens):
        self.lines.append(len(self.log.read_text().splitlines()) if self.log.exists() else 0)
        return super().forward(tokens)


def test_stage_3_a_line_is_written_before_the_next_step(student, tmp_path):
    """The log has a JSON line per step, with the numbers of the result: in step s, s lines.

    A log of another run is gone after the first step.
    """
    log = tmp_path / "log"
    model = Reading(log)
    result, _ = run(student, model=model, log_path=str(log))
    lines = lines_of(log)
    steps = [line.get("step") for line in lines]
    expect.value(steps, [*range(6)], of="train", name='"step" in the log')
    for step, (line, want) in enumerate(zip(lines, result.losses, strict=True)):
        name = f'"loss" of step {step} in the log'
        expect.number(line.get("loss"), float(want), of="train", tolerance=0, name=name)
    hint = "is the file closed, or flushed, after each line?"
    name = "the number of lines in the log during each step"
    expect.value(model.lines, [0, 1, 2, 3, 4, 5], of="train", name=name, hint=hint)
    run(student, log_path=str(log))
    steps = [line["step"] for line in lines_of(log)]
    name = "the log's steps after a second fresh run with the same log_path"
    expect.value(steps, [0, 1, 2, 3, 4, 5], of="train", name=name)


def test_stage_4_a_stopped_run_goes_on(student, tmp_path):
    """Stopped in step 5 with checkpoint_every 4, a run with dropout resumes from step 4.

    It ends like a run that was never stopped, and logs no line twice.
    """
    whole, model = run(student, model=Table(dropout=0.5))
    files = {
        "checkpoint_every": 4,
        "checkpoint_path": str(tmp_path / "checkpoint"),
        "log_path": str(tmp_path / "log"),
    }
    with contextlib.suppress(KeyboardInterrupt):
        run(student, model=Table(stop_at=5, dropout=0.5), **files)
    resumed, resumed_model = run(student, model=Table(dropout=0.5), **files)
    hints = {0: "is the checkpoint loaded, with its number of finished steps?"}
    hints[5] = "the checkpoint comes after step 3, when 4 steps are finished"
    inputs = "checkpoint_every 4, stopped in step 5"
    expect.value(resumed.first_step, 4, of="train", name="first_step", inputs=inputs, hints=hints)
    hint = "what does a step depend on, dropout too, and is it in the checkpoint?"
    hint = "only the steps of this call" if len(resumed.losses) == 6 else hint
    name = "losses after the resume"
    expect.value(resumed.losses, whole.losses[4:], of="train", name=name, hint=hint)
    expect.tensor(resumed_model.table.weight, model.table.weight, of="train", name="the table")
    steps = [line["step"] for line in lines_of(tmp_path / "log")]
    hint = "cut off the lines of steps that are done again"
    expect.value(steps, [0, 1, 2, 3, 4, 5], of="train", name="the log's steps", hint=hint)


def test_stage_4_a_finished_run_is_not_run_again(student, tmp_path):
    """The last step writes a checkpoint, too. Run again, a finished run takes no step."""
    files = {"checkpoint_every": 4, "checkpoint_path": str(tmp_path / "checkpoint")}
    _, model = run(student, **files)
    again, loaded = run(student, **files)
    hints, name = {4: "is there a checkpoint after the last step?"}, "first_step of a finished run"
    expect.value(again.first_step, 6, of="train", name=name, hints=hints)
    expect.value(again.losses, [], of="train", name="the losses of a finished run")
    table, want = loaded.table.weight, model.table.weight
    hints = {0.0: "a finished run loads its checkpoint into the model, too"}
    expect.tensor(table, want, of="train", name="the table of a finished run", hints=hints)


class Unwritable(Table):
    """A Table whose state can be written once, as if the disk were full afterwards."""

    def get_extra_state(self):
        return self if self.forwards > 4 else None

    def set_extra_state(self, state):
        pass

    def __reduce__(self):
        raise OSError("no space left")


def test_stage_4_the_old_checkpoint_stays_until_the_new_one_is_complete(student, tmp_path):
    """If the checkpoint of step 6 cannot be written, a run resumes from that of step 3."""
    files = {"checkpoint_every": 3, "checkpoint_path": str(tmp_path / "checkpoint")}
    with contextlib.suppress(OSError):
        run(student, model=Unwritable(), **files)
    first_step = None
    with contextlib.suppress(Exception):
        first_step = run(student, model=Unwritable(), **files)[0].first_step
    reason = "after an error in a checkpoint, a run does not resume from the one before"
    hint = None if first_step else "write to a temporary file, then os.replace"
    expect.that(first_step == 3, reason, of="train", hint=hint)
