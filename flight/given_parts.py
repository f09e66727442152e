"""Parts that stand in for problems that are not solved yet. They are made of torch's own tools."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


def linear(in_features: int, out_features: int) -> nn.Module:
    """torch's linear layer, with its own initial weights."""
    return nn.Linear(in_features, out_features, bias=False)


def attention(q: Tensor, k: Tensor, v: Tensor, heads: int) -> Tensor:
    """Causal attention by torch's fused operator."""
    q, k, v = (part.view(*part.shape[:2], heads, -1).movedim(2, 1) for part in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).movedim(1, -2).flatten(-2)


def open_tokens(path: Path, dtype: Any) -> np.ndarray:
    """The whole text, read into memory."""
    read: np.ndarray = np.frombuffer(path.read_bytes(), dtype=dtype)
    return read


def get_batch(
    tokens: np.ndarray, batch_size: int, context: int, device: str, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Windows of a tensor that holds the whole text."""
    windows = torch.as_tensor(np.asarray(tokens, dtype=np.int64)).unfold(0, context + 1, 1)
    drawn = torch.utils.data.RandomSampler(
        range(len(windows)), replacement=True, num_samples=batch_size, generator=generator
    )
    both = windows[list(drawn)].to(device)
    return both[:, :-1], both[:, 1:]


def train(model: nn.Module, optimizer: Any, tokens: np.ndarray, config: Any, parts: Any) -> None:
    """A loop without micro-batches, autocast, evaluation and resuming."""
    generator = torch.Generator().manual_seed(config.seed)
    with Path(config.log_path).open("w", encoding="utf-8", buffering=1) as log:
        for step in range(config.steps):
            x, y = parts.get_batch(
                tokens, config.batch_size, config.context_length, config.device, generator
            )
            loss = F.cross_entropy(model(x).transpose(1, 2), y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            norm = parts.clip_gradient_norm(list(model.parameters()), config.max_grad_norm or 1e9)
            for group in optimizer.param_groups:
                group["lr"] = rate(step, config)
            optimizer.step()
            line = {"step": step, "loss": loss.item(), "grad_norm": float(norm)}
            log.write(json.dumps(line) + "\n")
    parts.save_checkpoint(model, optimizer, config.steps, config.checkpoint_path)


def rate(step: int, config: Any) -> float:
    """A linear warm-up, and then half a cosine."""
    most, least, warm = config.max_learning_rate, config.min_learning_rate, config.warmup_steps
    if step < warm:
        return float(most * step / warm)
    done = (step - warm) / max(1, config.steps - warm)
    return float(least + (most - least) * (1 + math.cos(math.pi * done)) / 2)


def save_checkpoint(model: nn.Module, optimizer: Any, iteration: int, out: Any) -> None:
    """The weights alone."""
    torch.save({"model": model.state_dict(), "iteration": iteration}, out)
