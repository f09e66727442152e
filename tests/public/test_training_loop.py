"""training_loop: a run, its micro-batches, evaluations, checkpoints and log. Handout §11.1."""

import contextlib
import json
import math

import numpy as np
import torch
from torch import nn

from tests import expect

TOKENS = np.random.default_rng(0).permutation(np.arange(200) % 8)
EXAMPLE = {
    "steps": 6,
    "batch_size": 4,
    "context_length": 5,
    "max_learning_rate": 1.0,
    "min_learning_rate": 0.1,
    "warmup_steps": 2,
}


class Table(nn.Module):
    """Logits of the next token, one row of a table for each token; stops its run at a forward pass if told to."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.zeros(8, 8), freeze=False)
        self.forwards, self.stop_at = 0, stop_at

    def forward(self, tokens):
        self.forwards += 1
        if self.forwards - 1 == self.stop_at:
            raise KeyboardInterrupt
        return self.table(tokens)


def run(student, *, stop_at=None, optimizer=torch.optim.AdamW, **config):
    """A run on TOKENS: its result, and the model."""
    model = Table(stop_at)
    optimizer = optimizer(model.parameters(), lr=0.0)
    config = student.training.TrainConfig(**{**EXAMPLE, **config})
    return student.training.train(model, optimizer, TOKENS, config, val_tokens=TOKENS[:50]), model


def test_learning_rates_of_the_example(student):
    """max 1, min 0.1, 2 steps of warm-up, 6 steps: 0, 0.5, 1, 0.8682, 0.55, 0.2318."""
    result, _ = run(student)
    expect.value(len(result.learning_rates), 6, of="train", inputs="steps 6")
    for step, want in enumerate([0, 0.5, 1, 0.868198, 0.55, 0.231802]):
        inputs = f"step {step}; max 1.0, min 0.1, warmup_steps 2, steps 6"
        expect.number(result.learning_rates[step], want, of="train", tolerance=1e-6, inputs=inputs)


def test_the_first_loss_is_that_of_a_guess(student):
    """A model whose logits are all 0 guesses among 8 tokens: its loss is log 8 = 2.0794."""
    result, _ = run(student)
    expect.number(result.losses[0], math.log(8), of="train", tolerance=1e-5, hint="cross-entropy in nats, the mean over tokens")


def test_micro_batches_change_only_rounding(student):
    """A batch of 4 windows in micro-batches of 3 and 1 gives the same run as the whole batch."""
    (whole, _), (parts, model) = (run(student, optimizer=torch.optim.SGD, micro_batch_size=m) for m in (None, 3))
    expect.value(model.forwards, 12, of="train", hint="two forward passes a step: 3 windows and 1")
    for loss, want in zip(parts.losses, whole.losses, strict=True):
        expect.number(loss, want, of="train", tolerance=1e-4, hint="a micro-batch counts by its windows")


def test_evaluation_changes_no_training(student):
    """With eval_every 3 there are evaluations after 3 and after 6 steps, and the losses of training stay what they are."""
    (with_evaluation, model), (without, _) = run(student, eval_every=3), run(student)
    expect.value(sorted(with_evaluation.eval_losses), [3, 6], of="train", inputs="eval_every 3, steps 6")
    expect.value(with_evaluation.losses, without.losses, of="train", hint="does the evaluation draw from training's generator?")
    expect.that(model.training, "the model is left in eval mode", of="train")


def test_a_stopped_run_goes_on(student, tmp_path):
    """Stopped in step 5 with checkpoint_every 4, it goes on from step 4, ends as if not stopped, and logs no line twice."""
    whole, model = run(student)
    files = {"checkpoint_every": 4, "checkpoint_path": str(tmp_path / "checkpoint"), "log_path": str(tmp_path / "log")}
    with contextlib.suppress(KeyboardInterrupt):
        run(student, stop_at=5, **files)
    resumed, resumed_model = run(student, **files)
    expect.value(resumed.first_step, 4, of="train", inputs="checkpoint_every 4, stopped in step 5")
    expect.value(resumed.losses, whole.losses[4:], of="train", hint="what does a step depend on, and is it in the checkpoint?")
    expect.tensor(resumed_model.table.weight, model.table.weight, of="train", name="the table")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    expect.value([line["step"] for line in lines], [0, 1, 2, 3, 4, 5], of="train", hint="cut off what is done again")


def test_missing_validation_tokens_are_noticed(student):
    """eval_every without val_tokens is a ValueError."""
    model = Table()
    config = student.training.TrainConfig(**EXAMPLE, eval_every=2)
    with expect.raises(ValueError, of="train", when="eval_every is 2 and there are no val_tokens", naming="val_tokens"):
        student.training.train(model, torch.optim.AdamW(model.parameters()), TOKENS, config)
