"""Probes for testing CPU problems on a GPU: each creates its objects on `device`.

Tensors are returned unchanged. The grader gets copies of them in its own process, so each probe
returns a tensor's device as a word.
"""

import functools
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import gpu_stand_in
from kit.student import seed_generators
from tests.probes.training import Bigram


class Placed(TypedDict):
    """Tensors, with the device type of each."""

    tensors: list[Any]
    devices: list[str]


class Batch(Placed):
    """The result of `batch`: x, y, their devices, and whether they came from pinned memory."""

    pinned: list[bool]


class Resumed(Placed):
    """The result of `resumed`: parameters and the optimizer's state after loading, and more."""

    iteration: Any
    draws: list[Tensor]  # after the save and after the load
    next_step: list[Tensor]  # the parameters one step later


class Trained(Placed):
    """The result of `trained`: TrainResult's losses, parameters, dtypes and devices."""

    losses: Any
    dtypes: list[torch.dtype]
    logits_dtypes: list[torch.dtype]
    seen: list[Tensor]  # tokens of each forward pass in training mode
    next_random: Tensor


def _placed(tensors: Sequence[Any]) -> Placed:
    values = [x.detach().clone() if isinstance(x, Tensor) else x for x in tensors]
    return {
        "tensors": values,
        "devices": [x.device.type if isinstance(x, Tensor) else "none" for x in tensors],
    }


def _state_of(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The tensors of its state with more than one element."""
    values = [value for state in optimizer.state.values() for value in state.values()]
    return [v for v in values if isinstance(v, Tensor) and v.numel() > 1]


def layer(
    student: Any, *, device: str, kind: str, args: Sequence[Any], x: Tensor, dtype: torch.dtype
) -> Placed:
    """A layer created on a device: its output for x, and its parameters."""
    module = getattr(student.linear, kind)(*args, device=torch.device(device), dtype=dtype)
    return _placed([module(x.to(device, dtype)), *module.parameters()])


def adamw(
    student: Any,
    *,
    device: str,
    parameters: Sequence[Tensor],
    gradients: Sequence[Sequence[Tensor]],
    options: dict[str, Any],
) -> Placed:
    """Parameters on a device after some steps of AdamW, and its state."""
    leaves = [nn.Parameter(p.to(device, copy=True)) for p in parameters]
    optimizer = student.optimizers.AdamW(leaves, **options)
    for row in gradients:
        for leaf, given in zip(leaves, row, strict=True):
            leaf.grad = given.to(device, copy=True)
        optimizer.step()
    return _placed([*leaves, *_state_of(optimizer)])


def clipped(student: Any, *, device: str, gradients: Sequence[Tensor], max_norm: float) -> Placed:
    """The norm that clip_gradient_norm returns on a device, and the gradients after the call."""
    leaves = [nn.Parameter(torch.zeros_like(g, device=device)) for g in gradients]
    for leaf, gradient in zip(leaves, gradients, strict=True):
        leaf.grad = gradient.to(device, copy=True)
    norm = student.optimizers.clip_gradient_norm((leaf for leaf in leaves), max_norm)
    return _placed([norm, *(leaf.grad for leaf in leaves)])


def batch(
    student: Any, *, device: str, dataset: "np.ndarray[Any, Any]", size: int, length: int, seed: int
) -> Batch:
    """A batch on a device, and whether each copy to a GPU was made from pinned memory."""
    copies: list[str] = []
    starts = torch.Generator().manual_seed(seed)
    with gpu_stand_in.watched(copies):
        x, y = student.data.get_batch(dataset, size, length, device, starts)
    return {**_placed([x, y]), "pinned": [copy.startswith("pinned") for copy in copies]}


def resumed(
    student: Any,
    *,
    saved_on: str,
    loaded_on: str,
    weights: Sequence[Tensor],
    gradients: Sequence[Sequence[Tensor]],
    seed: int,
) -> Resumed:
    """A checkpoint saved on one device after some steps of AdamW and loaded on another.

    The model that loads it has other values before.
    """
    torch.manual_seed(seed)
    model, optimizer = _model(weights, saved_on)
    for row in gradients[:-1]:
        _step(model, optimizer, row)
    torch.rand(3, device=saved_on)
    stream = io.BytesIO()
    student.checkpointing.save_checkpoint(model, optimizer, len(gradients), stream)
    before = torch.rand(5, device=saved_on)
    other, other_optimizer = _model([torch.full_like(w, 0.5) for w in weights], loaded_on)
    torch.manual_seed(seed + 1)
    saved = io.BytesIO(stream.getvalue())
    iteration = student.checkpointing.load_checkpoint(saved, other, other_optimizer)
    after = torch.rand(5, device=saved_on)
    placed = _placed([*other.parameters(), *_state_of(other_optimizer)])
    _step(other, other_optimizer, gradients[-1])
    next_step = [p.detach().clone() for p in other.parameters()]
    return {**placed, "iteration": iteration, "draws": [before, after], "next_step": next_step}


def _model(weights: Sequence[Tensor], device: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.ParameterList([nn.Parameter(w.to(device, copy=True)) for w in weights])
    return model, torch.optim.AdamW(model.parameters(), lr=0.1)


def _step(model: nn.Module, optimizer: torch.optim.Optimizer, gradients: Sequence[Tensor]) -> None:
    for p, gradient in zip(model.parameters(), gradients, strict=True):
        p.grad = gradient.to(p.device, copy=True)
    optimizer.step()


class _Stopped(Exception):
    """Raised to end a run in the middle."""


def trained(
    student: Any,
    *,
    device: str,
    embedding: Tensor,
    head: Tensor,
    tokens: "np.ndarray[Any, Any]",
    config: dict[str, Any],
    stop_after: int | None = None,
    dropout: float = 0.0,
) -> Trained:
    """A run of `train` with AdamW on a device. All runs begin with the same random state.

    If `stop_after` is given, a run of this many steps comes first, and then the whole run.

    Both runs of such a pair use the same checkpoint, and the second run starts with other weights.
    """
    seen: list[Tensor] = []
    logits_dtypes: list[torch.dtype] = []
    weights = [embedding, head]
    runs: list[int | None] = [None] if stop_after is None else [stop_after, None]
    seed_generators(0)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "checkpoint")
        paths = {"checkpoint_path": path, "checkpoint_every": stop_after} if stop_after else {}
        made = student.training.TrainConfig(**config, **paths, device=device)
        for most in runs:
            seen.clear()
            logits_dtypes.clear()
            model = Bigram(*(w.to(device) for w in weights), dropout=dropout)
            model.on_forward = functools.partial(_noted, seen, logits_dtypes, most)
            optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
            with suppress(_Stopped):
                result = student.training.train(model, optimizer, tokens, made, val_tokens=tokens)
            weights = [torch.full_like(w, 0.5) for w in weights]
    kept = [p.grad for p in model.parameters() if p.grad is not None]
    tensors = [*model.parameters(), *kept, *_state_of(optimizer)]
    return {
        **_placed(tensors),
        "losses": result.losses,
        "dtypes": [x.dtype for x in tensors],
        "logits_dtypes": logits_dtypes,
        "seen": seen,
        "next_random": torch.rand(4, device=device),
    }


def _noted(
    seen: list[Tensor],
    dtypes: list[torch.dtype],
    most: int | None,
    model: Bigram,
    tokens: Tensor,
    logits: Tensor,
) -> Tensor:
    """Note a forward pass. In eval mode, draw a random number although dropout draws none."""
    if not model.training:
        torch.rand(1, device=tokens.device)
    elif len(seen) == most:
        raise _Stopped
    else:
        seen.append(tokens.detach().clone())
    dtypes.append(logits.dtype)
    return logits


def recomputed(student: Any, *, device: str, x: Tensor, weight: Tensor) -> Placed:
    """Dropout under `checkpoint` on a device: its output, both gradients, and an unmoved state."""
    leaf, w = (t.to(device, copy=True).requires_grad_() for t in (x, weight))
    y = student.activation_checkpointing.checkpoint(lambda z: F.dropout(z @ w, 0.5), leaf)
    torch.rand(3, device=device)
    state = torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()
    y.sum().backward()
    now = torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()
    return _placed([y, leaf.grad, w.grad, torch.equal(state, now)])
