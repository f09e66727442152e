"""Chapter 11: the loop that trains a model, in which the pieces of the earlier chapters meet.

A step is short: draw a batch, compute the loss and its gradients, clip them, let the optimizer step. What makes a loop worth
having is the rest: evaluation that leaves no trace, memory kept small by micro-batches, lower precision where it is safe, a
log, and checkpoints from which a run that was killed goes on as if nothing had happened.
"""

import json
import math
import os
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


def fit(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Float[Tensor, "n inputs"],
    y: Float[Tensor, "n outputs"],
    steps: int,
) -> list[float]:
    """Train on the same batch over and over: a worked neighbour of the loop below, and the order of every loop.

    losses[s] = mean squared error of the model before step s.

    Args:
        model: Maps x to something of y's shape.
        optimizer: Holds the model's parameters.
        x: Inputs.
        y: Targets.
        steps: Number of steps, 0 or more.

    Raises:
        ValueError: `steps` is negative.

    Example:
        y = wx with x = 1, y = 1, w = 0 and SGD of learning rate 0.25: the loss is 1 and its gradient -2, so w becomes 0.5,
        and the next loss is 0.25. fit returns [1.0, 0.25] for 2 steps.
    """
    if steps < 0:
        raise ValueError(f"steps must be at least 0, got {steps}")
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()  # gradients are added to what stands in .grad
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. `train` checks the values.

    Args:
        steps: Steps of the whole run, counted from 0, those before a resume included; 0 or more.
        batch_size: Windows in a batch, at least 1.
        context_length: Tokens in a window, at least 1 and below the number of tokens.
        max_learning_rate: Learning rate at the end of the warm-up.
        min_learning_rate: Learning rate that the cosine ends at, one step after the last.
        warmup_steps: Steps of linear warm-up, 0 or more.
        micro_batch_size: Windows that go through the model at a time, at least 1; None for the whole batch.
        max_grad_norm: Length to which longer gradients are scaled down, above 0; None to leave them as they are.
        autocast_dtype: dtype for torch.autocast, around each forward pass and its loss; None for no autocast.
        eval_every: Evaluate after each so many steps; 0 for never.
        eval_batches: Batches of an evaluation, at least 1.
        checkpoint_every: Write a checkpoint after each so many steps; 0 for after the last step alone.
        checkpoint_path: File of the checkpoint, resumed from where it exists; None for no checkpoint.
        log_path: File for one JSON line a step; None for no log.
        seed: All that is random follows from it; 0 or more.
        device: Where the model is, and where batches are put.
    """

    steps: int
    batch_size: int
    context_length: int
    max_learning_rate: float
    min_learning_rate: float
    warmup_steps: int
    micro_batch_size: int | None = None
    max_grad_norm: float | None = 1.0
    autocast_dtype: torch.dtype | None = None
    eval_every: int = 0
    eval_batches: int = 1
    checkpoint_every: int = 0
    checkpoint_path: str | None = None
    log_path: str | None = None
    seed: int = 0
    device: str = "cpu"


@dataclass(frozen=True)
class TrainResult:
    """What a call of `train` did. Entry i of the three lists belongs to step first_step + i.

    Args:
        losses: Mean cross-entropy of each step's batch in nats a token, before the optimizer stepped.
        learning_rates: Learning rate of each step.
        grad_norms: L2 norm of all gradients together at each step, before clipping.
        eval_losses: Number of steps taken → mean loss on validation batches at that point; none from before first_step.
        first_step: The step that this call began with: 0, or where the checkpoint that it resumed from had got to.
    """

    losses: list[float]
    learning_rates: list[float]
    grad_norms: list[float]
    eval_losses: dict[int, float]
    first_step: int


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    train_tokens: Int[np.ndarray, "n"],
    config: TrainConfig,
    *,
    val_tokens: Int[np.ndarray, "m"] | None = None,
) -> TrainResult:
    """Train a model to predict the next token, and go on from a checkpoint where there is one.

    Step s, counted from 0, in this order:

    1. Draw a batch: `batch_size` windows x of train_tokens, each start 0 … n - context_length - 1 equally likely, drawn
       independently and anew in each step; the targets y are the same windows one later in the data. Both are int64.
    2. The loss is the mean cross-entropy of y under model(x), over all tokens of the batch. With `micro_batch_size` m at most
       m windows go through the model at a time, the last ones perhaps fewer, and their losses and gradients count by
       their windows, so that only rounding differs from the whole batch at once. Gradients from before the step do not count.
    3. A loss that is not finite ends the run: see Raises.
    4. The norm is that of all gradients together. With `max_grad_norm` longer gradients are scaled down to it, once, after
       all micro-batches.
    5. The optimizer steps, every parameter group with the learning rate of s:

           s < warmup_steps:  max · s / warmup_steps
           otherwise:         min + (max - min) · (1 + cos(π · (s - warmup_steps) / (steps - warmup_steps))) / 2

       which is lr_cosine_schedule(s, max, min, warmup_steps, steps). With a warm-up step 0 has learning rate 0.
    6. Append a line to `log_path`, if set: a JSON object with "step" (s), "loss", "lr" and "grad_norm", the numbers of the
       result; more keys are allowed. It is in the file, whole, before the next step begins.
    7. If s + 1 is a multiple of `eval_every`: eval_losses[s + 1] is the mean loss over `eval_batches` batches of
       val_tokens. Every evaluation uses the same batches. It runs in eval mode and without gradients, and the training
       that follows is bit for bit what it would have been without it: mode and random state are put back, also where the
       model draws random numbers in eval mode.
    8. If s + 1 is a multiple of `checkpoint_every`, or s is the last step: replace `checkpoint_path`, if set. The old file is
       whole until the new one is.

    Training steps run in training mode. Forward passes and losses run under torch.autocast where `autocast_dtype` is set;
    parameters, gradients and the optimizer's state keep their dtypes.

    What is random follows from `seed`: the batches, and what the model draws from torch's global generators, which
    torch.manual_seed(seed) sets before a fresh run. Two runs with the same seed and the same first weights are equal bit
    for bit, whatever was drawn before.

    Where `checkpoint_path` exists the run resumes: model, optimizer, random state and step go on from there. A run killed at
    any moment, and run again with the same arguments, ends bit-equal to one that was never stopped. Its log then holds
    one line a step, as if there had been no kill: lines of steps that are done again, and one that was not finished,
    are cut off first. A fresh run starts a new log. A run that is finished already trains no further and returns empty lists.

    You may import your own get_batch, clip_gradient_norm and so on; a mistake there is then a mistake here. The tests need
    none of them, and here you may use everything that torch has: clip_grad_norm_, F.cross_entropy, torch.save. Write small
    functions of your own too: all in one piece, the loop does not fit a screen.

    Args:
        model: Maps int64 tokens (batch, context) to logits (batch, context, vocabulary); it is on `config.device` already.
        optimizer: A torch.optim.Optimizer of the model's parameters.
        train_tokens: Tokens of any integer dtype, in memory or memory-mapped; only the batches are read.
        config: How to train; see TrainConfig.
        val_tokens: Tokens to evaluate on, needed where `eval_every` is not 0.

    Raises:
        FloatingPointError: The loss of a step is NaN or infinite. The text names the step; the optimizer has not made it, and
            it is not in the log.
        ValueError: A field of config is out of range (see TrainConfig), `val_tokens` is missing or has no more than
            context_length tokens although eval_every is not 0, or `checkpoint_path` is missing although checkpoint_every is
            not 0. The text names the field or the argument; nothing has been changed.

    Example:
        max 1.0, min 0.1, warmup_steps 2, steps 6: learning rates 0, 0.5, 1, 0.8682, 0.55, 0.2318. With eval_every 3 the
        result has eval_losses at 3 and 6; with checkpoint_every 4 checkpoints are written after 4 and after 6 steps. Killed in
        step 5, counted from 0, it resumes with first_step 4.

    Handout §11.1 · training_loop · `pytest -k training_loop`
    """
    # TODO(training_loop): about 21 lines, beside about 118 in helpers for the whole problem.
    raise NotImplementedError("training_loop: see handout §11.1")
