"""Chapter 8: optimizers, what they keep for each parameter, and what steers them.

An optimizer holds parameter groups: lists of parameters, each with options of its own. A step reads every parameter's
gradient and changes the parameter in place. What it must remember from one step to the next, such as a running mean of
the gradients, stands in `self.state[parameter]`, a dict that is empty at first, so that state_dict saves it and
load_state_dict brings it back.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class SignSGD(torch.optim.Optimizer):
    """Every weight moves by lr, against the sign of its mean gradient: a worked neighbour of the classes below.

    m ← β m + (1 − β) g
    p ← p − lr · sign(m)

    Args:
        params: Parameters, or dicts with the key "params" and options of that group's own.
        lr: Length of a step, not negative.
        beta: How much of the mean the next gradient leaves, in [0, 1).

    Raises:
        ValueError: `lr` or `beta` is out of range.

    Example:
        p = 1, lr = 0.1, g = 3: m = 0.1 · 3 = 0.3 with β = 0.9, so p = 0.9; any other positive gradient does the same.
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], lr: float = 1e-3, beta: float = 0.9) -> None:
        if lr < 0:
            raise ValueError(f"lr must not be negative, got {lr}")
        if not 0 <= beta < 1:
            raise ValueError(f"beta must be in [0, 1), got {beta}")
        # A group that names no lr or beta of its own gets these.
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient.

        Args:
            closure: Computes the loss and its gradients; called once, with gradients on, before anything changes.

        Returns:
            What the closure returned; None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:  # not part of this loss: neither the parameter nor its state changes
                    continue
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].lerp_(p.grad, 1 - group["beta"])
                p.sub_(state["mean"].sign(), alpha=group["lr"])
        return loss


class AdamW(torch.optim.Optimizer):
    """Steps of about lr a weight, whatever the scale of its gradients, with a weight decay that is no part of them.

    For each parameter p with gradient g, in this order:

    t ← t + 1                       its own count of steps
    p ← p − lr · λ · p              λ is weight_decay
    m ← β₁ m + (1 − β₁) g           starts at 0
    v ← β₂ v + (1 − β₂) g²          starts at 0
    m̂ = m / (1 − β₁ᵗ)
    v̂ = v / (1 − β₂ᵗ)
    p ← p − lr · m̂ / (√v̂ + ε)       ε outside the root

    This is torch's form. Other texts take lr · √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε), where ε is in effect larger in
    the first steps, or decay the parameter after the step; neither is meant here.

    p changes in place and keeps its storage; its gradient stays as it is. A parameter whose gradient is None is
    skipped: no decay, no count. m, v and t stand in `self.state[p]`, m and v with p's dtype.

    Args:
        params: Parameters, or dicts with the key "params" and options of that group's own.
        lr: Learning rate, not negative.
        betas: β₁ and β₂, both in [0, 1).
        eps: ε, not negative.
        weight_decay: λ, not negative.

    Raises:
        ValueError: `lr`, `betas`, `eps` or `weight_decay` is out of range.

    Example:
        p = 1, g = 0.01 at every step, lr = 0.1, ε = 0.01, λ = 0.5. As g is constant, m̂ = 0.01 and √v̂ = 0.01:
        1 · 0.95 − 0.1 · 0.01 / 0.02 = 0.9, then 0.9 · 0.95 − 0.05 = 0.805.

    Handout §8.2 · adamw · `pytest -k adamw`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        # TODO(adamw): about 6 lines.
        raise NotImplementedError("adamw: see handout §8.2")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, by the options of its group.

        Args:
            closure: Computes the loss and its gradients; called once, with gradients on, before anything changes.

        Returns:
            What the closure returned; None without one.
        """
        # TODO(adamw): about 20 lines.
        raise NotImplementedError("adamw: see handout §8.2")
