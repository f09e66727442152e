"""Chapter 11: a training loop that combines the pieces of the earlier chapters.

A step is short: draw a batch, compute the loss and its gradients, clip the gradients, let the
optimizer step. Everything else makes the loop useful: evaluation that does not affect training,
micro-batches that save memory, lower precision where it is safe, a log, and checkpoints from which
a killed run resumes as if nothing had happened.
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
    """Train on one batch repeatedly: a solved example of the order inside every training loop.

    losses[s] = mean squared error of the model before step s.

    Args:
        model: A module that maps x to a tensor of y's shape.
        optimizer: Of the model's parameters.
        x: Inputs.
        y: Targets.
        steps: Number of steps.

    Example:
        y = wx with x = 1, y = 1, w = 0 and SGD with learning rate 0.25: the loss is 1 and
        its gradient is -2, so w becomes 0.5, and the next loss is 0.25. With 2 steps, fit
        returns [1.0, 0.25].
    """
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()  # backward adds to .grad
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run.

    Args:
        steps: Steps of the whole run, including those before a resume.
        batch_size: Windows per batch.
        context_length: Tokens per window.
        max_learning_rate: Learning rate at the end of the warm-up.
        min_learning_rate: Learning rate that the cosine would reach one step after the last.
        warmup_steps: Steps of linear warm-up, fewer than `steps`.
        micro_batch_size: Windows per micro-batch of training; None for the whole batch.
        max_grad_norm: Largest norm of the gradients; larger ones are scaled down to it. None for
            no clipping.
        autocast_dtype: dtype for torch.autocast around each forward pass and its loss; None
            for no autocast.
        eval_every: Number of steps between evaluations; 0 for no evaluation.
        eval_batches: Batches per evaluation.
        checkpoint_every: Number of steps between checkpoints; 0 for a checkpoint after the
            last step only.
        checkpoint_path: The checkpoint's file, from which a run resumes if it exists; None for
            no checkpoint.
        log_path: File for one JSON line per step; None for no log.
        seed: Seed of the batches.
        device: Device of the model and of the batches.
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
    """The results of one call of `train`. Entry i of each list belongs to step first_step + i.

    Args:
        losses: Mean cross-entropy of each step's batch in nats per token, before the
            optimizer stepped.
        learning_rates: Learning rate of each step.
        grad_norms: L2 norm of all gradients together in each step, before clipping.
        eval_losses: Maps a number of steps taken to the mean loss on the validation batches at that
            point. It contains only evaluations of this call, none from before first_step.
        first_step: The first step of this call: 0, or the step at which the checkpoint's
            run continues.
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
    """Train a model to predict the next token; resume if there is a checkpoint.

    Stage 1: steps s = 0, 1, …
        Draw batch_size windows x; the targets y are the same windows one token later.
        Starts 0 … n - context_length - 1 are equally likely.
        The loss is the mean cross-entropy over all tokens of the batch.
        The optimizer uses the gradients of this batch alone.
        Every parameter group has the rate lr_cosine_schedule(s, max, min, warmup_steps, steps).
        `seed` and s alone decide a batch.

    Stage 2: large batches
        Train on at most micro_batch_size windows at a time.
        Loss and gradients are those of the whole batch, even if its last part is short.
        Clip all gradients together, once, after the last micro-batch.
        Autocast is around forward and loss, which is in float32.

    Stage 3: log and evaluation
        Before the next step begins, append a JSON line with "step" and "loss".
        A fresh run starts a new log.
        If eval_every divides s + 1, eval_losses[s + 1] is the mean loss of eval_batches batches of
        val_tokens: always the same ones, in eval mode, without gradients.
        Training continues bit for bit as without evaluations (mode, random state).

    Stage 4: resume
        Save a checkpoint if checkpoint_every divides s + 1, and after the last step.
        The old file stays until the new one is complete.
        If the file exists, resume, and end bit-equal to a run never stopped, with one log line per
        step. A finished run takes no step.

    Args:
        model: Maps tokens (batch, context) to logits (batch, context, vocabulary).
        optimizer: Of the model's parameters.
        train_tokens, val_tokens: Tokens, usually np.memmaps of uint16; read only the batches.
        config: See TrainConfig.

    Raises:
        FloatingPointError: A training loss is not finite; the optimizer does not step.

    Example:
        max 1, min 0.1, warmup_steps 2, steps 6: rates 0, 0.5, 1, 0.8682, 0.55, 0.2318.

    Handout §11.1 · `python -m assignment check training_loop`
    """
    # TODO(training_loop): about 19 lines, plus about 101 for the problem's helpers.
    raise NotImplementedError("training_loop: see handout §11.1")
