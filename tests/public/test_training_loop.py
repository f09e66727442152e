"""training_loop: the four stages of a training loop. Handout §11.1.

The stages are a plain loop, micro-batches and clipping, log and evaluation, and resume.
`pytest tests/public -k "training_loop and stage_1"` runs the tests of one stage.
"""

import contextlib
import json
import math

import numpy as np
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


class Table(nn.Module):
    """A table with the next token's logits, one row per token.

    The model raises KeyboardInterrupt at forward pass `stop_at`, to stop its run.
    """

    def __init__(self, stop_at=None):
        super().__init__()
        self.table = nn.Embedding.from_pretrained(torch.zeros(8, 8), freeze=False)
        self.forwards, self.stop_at = 0, stop_at
        self.trained_in_eval_mode = False

    def forward(self, tokens):
        self.forwards += 1
        self.trained_in_eval_mode |= torch.is_grad_enabled() and not self.training
        if self.forwards - 1 == self.stop_at:
            raise KeyboardInterrupt
        return self.table(tokens)


def run(student, *, stop_at=None, optimizer=torch.optim.AdamW, **config):
    """Run `train` on TOKENS and return its result and the model."""
    model = Table(stop_at)
    optimizer = optimizer(model.parameters(), lr=0.0)
    config = student.training.TrainConfig(**{**EXAMPLE, **config})
    return student.training.train(model, optimizer, TOKENS, config, val_tokens=TOKENS[:50]), model


def test_stage_1_learning_rates_of_the_example(student):
    """max 1, min 0.1, 2 steps of warm-up, 6 steps: 0, 0.5, 1, 0.8682, 0.55, 0.2318."""
    result, _ = run(student)
    expect.value(
        len(result.learning_rates),
        6,
        of="train",
        name="the number of learning rates",
        inputs="steps 6",
    )
    for step, want in enumerate([0, 0.5, 1, 0.868198, 0.55, 0.231802]):
        inputs, name = (
            "max 1.0, min 0.1, warmup_steps 2, steps 6",
            f"the learning rate of step {step}",
        )
        expect.number(
            result.learning_rates[step], want, of="train", tolerance=1e-6, name=name, inputs=inputs
        )


def test_stage_1_every_group_gets_the_learning_rate(student):
    """Both parameter groups end with the last step's learning rate."""
    model = Table()
    groups = [
        {"params": [torch.nn.Parameter(torch.zeros(1))]},
        {"params": list(model.parameters())},
    ]
    optimizer = torch.optim.SGD(groups, lr=5.0)
    result = student.training.train(
        model, optimizer, TOKENS, student.training.TrainConfig(**EXAMPLE)
    )
    for number, group in enumerate(optimizer.param_groups):
        name = f"the learning rate of group {number} in the last step"
        expect.number(group["lr"], result.learning_rates[-1], of="train", tolerance=1e-6, name=name)


def test_stage_1_the_first_loss_is_that_of_a_guess(student):
    """With logits of 0, the model guesses among 8 tokens: its loss is log 8 = 2.0794."""
    result, _ = run(student)
    hint = "cross-entropy in nats, the mean over tokens"
    expect.number(
        result.losses[0],
        math.log(8),
        of="train",
        tolerance=1e-5,
        name="the loss of step 0",
        hint=hint,
    )


def test_stage_1_gradients_of_earlier_steps_do_not_count(student):
    """With only one possible window and learning rate 0, every step has the same gradients."""
    still = {"max_learning_rate": 0.0, "min_learning_rate": 0.0, "warmup_steps": 0}
    result, _ = run(student, context_length=len(TOKENS) - 1, batch_size=1, steps=2, **still)
    first, second = result.grad_norms
    hint = "backward adds to .grad: when is it set to zero?"
    expect.number(
        second,
        first,
        of="train",
        tolerance=1e-6,
        name="the norm in step 1, with the gradients of step 0",
        hint=hint,
    )


def test_stage_2_micro_batches_change_only_rounding(student):
    """A batch of 4 windows in micro-batches of 3 and 1 gives the same run as the whole batch."""
    (whole, _), (parts, model) = (
        run(student, optimizer=torch.optim.SGD, micro_batch_size=m) for m in (None, 3)
    )
    expect.value(
        model.forwards,
        12,
        of="train",
        name="the number of forward passes",
        hint="two forward passes per step: 3 windows and 1",
    )
    for loss, want in zip(parts.losses, whole.losses, strict=True):
        expect.number(
            loss,
            want,
            of="train",
            tolerance=1e-4,
            name="a loss",
            hint="the weight of a micro-batch is its number of windows",
        )


def test_stage_2_long_gradients_are_clipped(student):
    """One step of SGD with learning rate 1 from a table of zeros gives the clipped gradient's norm.

    The gradients are clipped to 0.01.
    """
    once = {"steps": 1, "max_learning_rate": 1.0, "min_learning_rate": 1.0, "warmup_steps": 0}
    _, model = run(student, optimizer=torch.optim.SGD, max_grad_norm=0.01, **once)
    norm = float(model.table.weight.detach().norm())
    expect.number(norm, 0.01, of="train", tolerance=1e-5, name="the norm of the clipped step")


def test_stage_3_one_line_per_step(student, tmp_path):
    """The log has a JSON line per step, with the numbers of the result."""
    result, _ = run(student, log_path=str(tmp_path / "log"))
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    for key, want in {
        "step": list(range(6)),
        "loss": result.losses,
        "lr": result.learning_rates,
    }.items():
        expect.value(
            [line.get(key) for line in lines], want, of="train", name=f'"{key}" in the log'
        )


def test_stage_3_evaluation_changes_no_training(student):
    """With eval_every 3, evaluations come after 3 and after 6 steps.

    They do not change the losses of training.
    """
    (with_evaluation, model), (without, _) = run(student, eval_every=3), run(student)
    keys = sorted(with_evaluation.eval_losses)
    expect.value(
        keys, [3, 6], of="train", name="the keys of eval_losses", inputs="eval_every 3, steps 6"
    )
    name = "losses, with and without evaluations"
    expect.value(
        with_evaluation.losses,
        without.losses,
        of="train",
        name=name,
        hint="does the evaluation draw from training's generator?",
    )
    hint = "after an evaluation, back to training mode"
    expect.that(not model.trained_in_eval_mode, "a step runs in eval mode", of="train", hint=hint)


def test_stage_3_missing_validation_tokens_are_noticed(student):
    """eval_every without val_tokens is a ValueError."""
    model = Table()
    config = student.training.TrainConfig(**EXAMPLE, eval_every=2)
    with expect.raises(ValueError, of="train", when="eval_every is 2 and there are no val_tokens"):
        student.training.train(model, torch.optim.AdamW(model.parameters()), TOKENS, config)


def test_stage_4_a_stopped_run_goes_on(student, tmp_path):
    """Stopped in step 5 with checkpoint_every 4, a run resumes from step 4.

    It ends like a run that was never stopped, and logs no line twice.
    """
    whole, model = run(student)
    files = {
        "checkpoint_every": 4,
        "checkpoint_path": str(tmp_path / "checkpoint"),
        "log_path": str(tmp_path / "log"),
    }
    with contextlib.suppress(KeyboardInterrupt):
        run(student, stop_at=5, **files)
    resumed, resumed_model = run(student, **files)
    expect.value(
        resumed.first_step,
        4,
        of="train",
        name="first_step",
        inputs="checkpoint_every 4, stopped in step 5",
    )
    expect.value(
        resumed.losses,
        whole.losses[4:],
        of="train",
        name="losses after the resume",
        hint="what does a step depend on, and is it in the checkpoint?",
    )
    expect.tensor(resumed_model.table.weight, model.table.weight, of="train", name="the table")
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    steps = [line["step"] for line in lines]
    expect.value(
        steps,
        [0, 1, 2, 3, 4, 5],
        of="train",
        name="the log's steps",
        hint="cut off the lines of steps that are done again",
    )
