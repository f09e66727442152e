"""Chapter 8: optimizers and their state, gradient clipping, and a learning rate schedule.

Every optimizer of this module keeps these rules; SignSGD, a solved example, shows them:

- `params` holds parameters, or groups: dicts with the key "params" and the group's own options.
- A step reads the options from the group each time, because a schedule changes them there.
- It moves only parameters that have a gradient, in place, and leaves gradients as they are.
- What later steps need belongs in `self.state[p]`, a dict that is empty at first. state_dict saves
  it, and load_state_dict restores it.
- With a closure, step first calls it once, with gradients enabled, to compute the loss and its
  gradients, and returns its result. Without one it returns None.

The handout's page "What tests try" says which inputs these functions get.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


class SignSGD(torch.optim.Optimizer):
    """Move every weight by lr against the sign of its mean gradient: a solved example.

    m ← β m + (1 − β) g
    p ← p − lr · sign(m)

    Args:
        params: Parameters or groups.
        lr: Length of a step.
        beta: β, the weight of the old mean, in [0, 1).

    Example:
        p = 1, lr = 0.1, β = 0.9, g = 3: m = 0.1 · 3 = 0.3, so p = 0.9. Any other positive gradient
        gives the same p.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        beta: float = 0.9,
    ) -> None:
        # A group without its own lr or beta gets these.
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:  # p has no part in this loss
                    continue
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].lerp_(p.grad, 1 - group["beta"])
                p.sub_(state["mean"].sign(), alpha=group["lr"])
        return loss


class SGD(torch.optim.Optimizer):
    """Step against the gradient or, with momentum, against a decaying sum of the gradients so far.

    b ← μ b + g                     b starts at 0
    p ← p − lr · b

    With momentum 0, keep no b.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        momentum: μ, in [0, 1).

    Example:
        p = 1, lr = 0.1, μ = 0.5, g = 2 twice: b is 2, then 3, so p is 0.8, then 0.5.

    Handout §8.1 · `python -m assignment check optimizers`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
    ) -> None:
        # TODO(optimizers): about 1 line.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        # TODO(optimizers): about 16 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


class AdaGrad(torch.optim.Optimizer):
    """Divide each step by the root of the sum of all squared gradients so far.

    s ← s + g²                      starts at 0
    p ← p − lr · g / (√s + ε)

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        eps: ε.

    Example:
        p = 1, lr = 0.1, ε = 1, g = 3: s = 9, so p = 1 − 0.3 / (3 + 1) = 0.925.

    Handout §8.1
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-2,
        eps: float = 1e-10,
    ) -> None:
        # TODO(optimizers): about 1 line.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        # TODO(optimizers): about 14 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


class RMSProp(torch.optim.Optimizer):
    """Divide each step by the root of a running mean of the squared gradients.

    v ← α v + (1 − α) g²            starts at 0
    p ← p − lr · g / (√v + ε)

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        alpha: α, in [0, 1).
        eps: ε.

    Example:
        p = 1, g = 2, lr = 0.1, α = 0.75, ε = 1: v = 1, so p = 1 − 0.2 / (1 + 1) = 0.9.

    Handout §8.1
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
    ) -> None:
        # TODO(optimizers): about 1 line.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        # TODO(optimizers): about 16 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


def optimizer_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The bytes of an optimizer's state.

    bytes = Σ elements · bytes per element, over the tensors in `optimizer.state[p]` of every p.
    Leave out tensors with one element and everything that is no tensor.

    Args:
        optimizer: Any torch.optim.Optimizer. Before its first step it keeps nothing.

    Example:
        Adam after a step on a 3×4 float32 weight: 2 · 12 · 4 = 96 bytes.

    Handout §8.1
    """
    # TODO(optimizers): about 4 lines.
    raise NotImplementedError("optimizers: see handout §8.1")


class AdamW(torch.optim.Optimizer):
    """Move each weight by about lr, whatever its gradients' scale, and decay it.

    t ← t + 1                       each p has its own t
    p ← p − lr · λ · p
    m ← β₁ m + (1 − β₁) g
    v ← β₂ v + (1 − β₂) g²          t, m and v start at 0
    m̂ = m / (1 − β₁ᵗ)
    v̂ = v / (1 − β₂ᵗ)
    p ← p − lr · m̂ / (√v̂ + ε)

    Keep m, v and t in `self.state[p]`, t as an int: load_state_dict casts tensors to p's dtype.

    Args:
        params: Parameters or groups.
        lr: Learning rate.
        betas: β₁ and β₂.
        eps: ε, outside the root.
        weight_decay: λ.

    Example:
        p = 1, g = 0.01, lr = 0.1, ε = 0.01, λ = 0.5: 0.95 − 0.1 · 0.01 / 0.02 = 0.9.

    Handout §8.2 · `python -m assignment check adamw`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        # TODO(adamw): about 3 lines.
        raise NotImplementedError("adamw: see handout §8.2")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        # TODO(adamw): about 20 lines.
        raise NotImplementedError("adamw: see handout §8.2")


def clip_gradient_norm(
    parameters: Iterable[nn.Parameter], max_l2_norm: float, eps: float = 1e-6
) -> Float[Tensor, ""]:
    """Shorten the gradient to the length max_l2_norm if it is longer.

    ‖g‖ = √(Σ of the squares of all entries of all gradients)
    g ← g · max_l2_norm / (‖g‖ + ε)      only if ‖g‖ > max_l2_norm

    Change the gradients in place, and skip parameters whose gradient is None. Add up in float32:
    squares overflow in float16, and a bfloat16 sum of ones stops at 256.

    Args:
        parameters: Any iterable, perhaps a generator, which can be read once.
        max_l2_norm: The largest norm that stays, or math.inf.
        eps: ε.

    Returns:
        ‖g‖ before clipping, as a 0-dimensional tensor; 0 without any gradient.

    Example:
        With max_l2_norm = 1 and ε = 5, [3] and [0, 4] become [0.3] and [0, 0.4].

    Handout §8.3 · `python -m assignment check gradient_clipping`
    """
    # TODO(gradient_clipping): about 8 lines.
    raise NotImplementedError("gradient_clipping: see handout §8.3")


def lr_cosine_schedule(
    it: int,
    max_learning_rate: float,
    min_learning_rate: float,
    warmup_iters: int,
    cosine_cycle_iters: int,
) -> float:
    """The learning rate of iteration `it`: linear warm-up, then half a cosine, then constant.

    it < warmup_iters                          max · it / warmup_iters
    warmup_iters ≤ it < cosine_cycle_iters     min + (max − min) · (1 + cos(π x)) / 2
    cosine_cycle_iters ≤ it                    min

    where x = (it − warmup_iters) / (cosine_cycle_iters − warmup_iters).

    Args:
        it: The iteration, from 0.
        max_learning_rate, min_learning_rate: max and min.
        warmup_iters: Iterations of the warm-up; 0 means none.
        cosine_cycle_iters: Where the cosine ends, above warmup_iters.

    Example:
        max 1, min 0.1, warm-up until 10, cosine until 30: 0.5 at 5, 0.55 at 20, 0.1 from 30.

    Handout §8.4 · `python -m assignment check lr_schedule`
    """
    # TODO(lr_schedule): about 9 lines.
    raise NotImplementedError("lr_schedule: see handout §8.4")
