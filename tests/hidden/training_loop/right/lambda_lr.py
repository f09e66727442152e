"""Uses torch's LambdaLR, the other modules, and a context manager around whole evaluations.

It clears gradients after the step, seeds nothing global, and logs the loss outside autocast.

device: cpu
"""

import contextlib
import json
import math
import os
import warnings

import torch
import torch.nn.functional as F

from .checkpointing import load_checkpoint, save_checkpoint
from .data import get_batch
from .optimizers import clip_gradient_norm, lr_cosine_schedule


@contextlib.contextmanager
def _evaluating(model):
    modes = {m: m.training for m in model.modules()}
    state = torch.get_rng_state()
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_rng_state(state)
        for m in modes:
            m.training = modes[m]


def _next_token_loss(model, x, y, config):
    kind = torch.device(config.device).type
    with torch.autocast(
        kind,
        enabled=config.autocast_dtype is not None,
        dtype=config.autocast_dtype or torch.bfloat16,
    ):
        logits = model(x)
    b, t, v = logits.shape
    return F.cross_entropy(logits.float().view(b * t, v), y.reshape(b * t))


def train(model, optimizer, train_tokens, config, *, val_tokens=None):
    first = 0
    if config.checkpoint_path is not None and os.path.exists(config.checkpoint_path):
        first = load_checkpoint(config.checkpoint_path, model, optimizer)
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
        group["lr"] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer,
            lambda k: lr_cosine_schedule(
                k,
                config.max_learning_rate,
                config.min_learning_rate,
                config.warmup_steps,
                config.steps,
            ),
            last_epoch=first - 1,
        )
    if config.log_path is not None:
        before = ""
        if first and os.path.exists(config.log_path):
            with open(config.log_path) as f:
                before = "".join(f.readlines()[:first])
        with open(config.log_path, "w") as f:
            f.write(before)
    history = {"loss": [], "lr": [], "norm": [], "eval": {}}
    optimizer.zero_grad()
    for step in range(first, config.steps):
        lr = optimizer.param_groups[0]["lr"]
        g = torch.Generator().manual_seed(config.seed + 7919 * (step + 1))
        x, y = get_batch(train_tokens, config.batch_size, config.context_length, config.device, g)
        pieces = max(1, math.ceil(len(x) / (config.micro_batch_size or len(x))))
        loss_value = 0.0
        for k in range(pieces):
            size = config.micro_batch_size or len(x)
            xk, yk = x[k * size : (k + 1) * size], y[k * size : (k + 1) * size]
            loss = _next_token_loss(model, xk, yk, config) * xk.numel() / x.numel()
            loss.backward()
            loss_value += float(loss)
        if not math.isfinite(loss_value):
            raise FloatingPointError(f"step {step}: loss {loss_value}")
        norm = clip_gradient_norm(
            model.parameters(), math.inf if config.max_grad_norm is None else config.max_grad_norm
        )
        optimizer.step()
        optimizer.zero_grad()
        history["loss"].append(loss_value)
        history["lr"].append(lr)
        history["norm"].append(float(norm))
        if config.log_path is not None:
            with open(config.log_path, "a") as f:
                f.write(
                    json.dumps({"step": step, "loss": loss_value, "lr": lr, "norm": float(norm)})
                    + "\n"
                )
        if val_tokens is not None and config.eval_every and (step + 1) % config.eval_every == 0:
            with _evaluating(model):
                ge = torch.Generator().manual_seed(config.seed)
                values = [
                    _next_token_loss(
                        model,
                        *get_batch(
                            val_tokens, config.batch_size, config.context_length, config.device, ge
                        ),
                        config,
                    ).item()
                    for _ in range(config.eval_batches)
                ]
            history["eval"][step + 1] = sum(values) / len(values)
        is_due = config.checkpoint_every and (step + 1) % config.checkpoint_every == 0
        if config.checkpoint_path is not None and (is_due or step + 1 == config.steps):
            save_checkpoint(model, optimizer, step + 1, config.checkpoint_path)
        if step + 1 < config.steps:
            scheduler.step()
    return TrainResult(history["loss"], history["lr"], history["norm"], history["eval"], first)
