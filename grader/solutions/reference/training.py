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


# BEGIN SOLUTION(training_loop)
TRAINING, VALIDATION = 0, 1  # keys of the random streams for the batches


def _learning_rate(step, config):
    """Linear warm-up from 0, then half a cosine that would reach the minimum at step `steps`."""
    low, high = config.min_learning_rate, config.max_learning_rate
    if step < config.warmup_steps:
        return high * step / config.warmup_steps
    done = (step - config.warmup_steps) / (config.steps - config.warmup_steps)
    return low + (high - low) * (1 + math.cos(math.pi * done)) / 2


def _batch(tokens, config, stream, number):
    """Batch `number` of a stream. It depends on nothing else but the seed: no state to save."""
    rng = np.random.default_rng([config.seed, stream, number])
    starts = rng.integers(len(tokens) - config.context_length, size=(config.batch_size, 1))
    windows = tokens[starts + np.arange(config.context_length + 1)]
    windows = torch.from_numpy(windows.astype(np.int64)).to(config.device)
    return windows[:, :-1], windows[:, 1:]


def _loss(model, x, y, config):
    dtype = config.autocast_dtype
    with torch.autocast(torch.device(config.device).type, dtype=dtype, enabled=dtype is not None):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())


def _parts(x, y, config):
    """The micro-batches of a batch, each with its share of the batch's windows."""
    rows = config.micro_batch_size or config.batch_size
    for x_part, y_part in zip(x.split(rows), y.split(rows), strict=True):
        yield x_part, y_part, len(x_part) / len(x)


def _accumulate(model, optimizer, x, y, config):
    """Compute the gradients of the batch's mean loss by micro-batches; return that loss."""
    optimizer.zero_grad()
    total = 0.0
    for x_part, y_part, share in _parts(x, y, config):
        loss = _loss(model, x_part, y_part, config) * share
        loss.backward()
        total += loss.item()
    return total


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return nn.utils.clip_grad_norm_(parameters, math.inf if max_norm is None else max_norm).item()


def _step(model, optimizer, x, y, step, config):
    """Take one training step; return its loss, learning rate and gradient norm."""
    loss = _accumulate(model, optimizer, x, y, config)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of step {step} is {loss}")
    norm = _clip(optimizer, config.max_grad_norm)
    lr = _learning_rate(step, config)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    return loss, lr, norm


def _evaluate(model, tokens, config):
    """The mean loss on the same batches every time; mode and random state are restored."""
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng(_gpus(config)):
        batches = [_batch(tokens, config, VALIDATION, i) for i in range(config.eval_batches)]
        losses = [
            _loss(model, x_part, y_part, config).item() * share
            for x, y in batches
            for x_part, y_part, share in _parts(x, y, config)
        ]
    model.train(was_training)
    return sum(losses) / len(batches)


def _gpus(config):
    return [config.device] if torch.device(config.device).type == "cuda" else []


def _save(model, optimizer, steps_done, config):
    """Replace the checkpoint atomically: a crash leaves either the old one or the new one whole."""
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "steps_done": steps_done,
        "rng": torch.get_rng_state(),
        "gpu_rng": [torch.cuda.get_rng_state(gpu) for gpu in _gpus(config)],
    }
    temporary = f"{config.checkpoint_path}.tmp"
    with open(temporary, "wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, config.checkpoint_path)


def _start(model, optimizer, config):
    """Restore everything from the checkpoint, if there is one; return the first step."""
    if config.checkpoint_path is None or not os.path.exists(config.checkpoint_path):
        return 0
    checkpoint = torch.load(config.checkpoint_path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    torch.set_rng_state(checkpoint["rng"])
    for gpu, state in zip(_gpus(config), checkpoint["gpu_rng"], strict=True):
        torch.cuda.set_rng_state(state, gpu)
    return checkpoint["steps_done"]


def _trim_log(path, first_step):
    """Cut off an unfinished line, and the lines that a stopped run logged after its checkpoint."""
    end = 0
    with open(path, "ab+") as file:
        file.seek(0)
        for line in file:
            if not line.endswith(b"\n") or json.loads(line)["step"] >= first_step:
                break
            end += len(line)
        file.truncate(end)


def _log(path, record):
    # Closing the file passes the line to the operating system.
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


# END SOLUTION


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
    # BEGIN SOLUTION(training_loop)
    first_step = _start(model, optimizer, config)
    if config.log_path is not None:
        _trim_log(config.log_path, first_step)
    result = TrainResult([], [], [], {}, first_step)
    for step in range(first_step, config.steps):
        x, y = _batch(train_tokens, config, TRAINING, step)
        loss, lr, norm = _step(model, optimizer, x, y, step, config)
        result.losses.append(loss)
        result.learning_rates.append(lr)
        result.grad_norms.append(norm)
        if config.log_path is not None:
            _log(config.log_path, {"step": step, "loss": loss, "lr": lr, "grad_norm": norm})
        done = step + 1
        if config.eval_every and done % config.eval_every == 0:
            result.eval_losses[done] = _evaluate(model, val_tokens, config)
        is_due = config.checkpoint_every and done % config.checkpoint_every == 0
        if config.checkpoint_path is not None and (is_due or done == config.steps):
            _save(model, optimizer, done, config)
    return result
    # END SOLUTION
