"""Chapter 8: optimizers, what they keep for each parameter, and what steers them.

An optimizer holds parameter groups: lists of parameters, each with options of its own. A step reads every parameter's
gradient and changes the parameter in place. What it must remember from one step to the next, such as a running mean of
the gradients, stands in `self.state[parameter]`, a dict that is empty at first, so that state_dict saves it and
load_state_dict brings it back.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn


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


class SGD(torch.optim.Optimizer):
    """A step against the gradient or, with momentum, against a sum of gradients in which older ones count less.

    For each parameter p with gradient g, in this order:

    b ← μ b + g                     μ is momentum; b starts at 0, so it is g after the first step
    p ← p − lr · b

    This is torch's form, without dampening: g enters b whole, not times 1 − μ, and lr stands outside b, so that a change
    of lr acts on the whole step at once.

    p changes in place and keeps its storage; its gradient stays as it is. A parameter whose gradient is None is skipped.
    b stands in `self.state[p]`, with p's dtype. With momentum 0 the step is p ← p − lr · g and nothing is kept.

    Args:
        params: Parameters, or dicts with the key "params" and options of that group's own.
        lr: Learning rate, not negative.
        momentum: μ, not negative.

    Raises:
        ValueError: `lr` or `momentum` is negative.

    Example:
        p = 1, g = 2 at every step, lr = 0.1, μ = 0.5. b is 2, then 0.5 · 2 + 2 = 3: p = 1 − 0.2 = 0.8, then
        0.8 − 0.3 = 0.5.

    Handout §8.1 · optimizers · `pytest -k optimizers`
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], lr: float = 1e-3, momentum: float = 0.0) -> None:
        # TODO(optimizers): about 4 lines.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, by the options of its group.

        Args:
            closure: Computes the loss and its gradients; called once, with gradients on, before anything changes.

        Returns:
            What the closure returned; None without one.
        """
        # TODO(optimizers): about 16 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


class AdaGrad(torch.optim.Optimizer):
    """Steps that shrink where gradients have been large: each is divided by the root of all squares so far.

    For each parameter p with gradient g, in this order:

    s ← s + g²                      starts at 0
    p ← p − lr · g / (√s + ε)       ε outside the root

    p changes in place and keeps its storage; its gradient stays as it is. A parameter whose gradient is None is skipped.
    s stands in `self.state[p]`, with p's dtype.

    Args:
        params: Parameters, or dicts with the key "params" and options of that group's own.
        lr: Learning rate, not negative.
        eps: ε, not negative.

    Raises:
        ValueError: `lr` or `eps` is negative.

    Example:
        p = 1, lr = 0.1, ε = 1, gradients 3 and then 4. s is 9, then 25: p = 1 − 0.1 · 3 / (3 + 1) = 0.925, then
        0.925 − 0.1 · 4 / (5 + 1) = 0.8583.

    Handout §8.1 · optimizers · `pytest -k optimizers`
    """

    def __init__(self, params: Iterable[Tensor] | Iterable[dict[str, Any]], lr: float = 1e-2, eps: float = 1e-10) -> None:
        # TODO(optimizers): about 4 lines.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, by the options of its group.

        Args:
            closure: Computes the loss and its gradients; called once, with gradients on, before anything changes.

        Returns:
            What the closure returned; None without one.
        """
        # TODO(optimizers): about 14 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


class RMSProp(torch.optim.Optimizer):
    """AdaGrad that forgets: each step is divided by the root of a running mean of the gradient's squares.

    For each parameter p with gradient g, in this order:

    v ← α v + (1 − α) g²            α is alpha; starts at 0
    p ← p − lr · g / (√v + ε)       ε outside the root

    v is not corrected for its start at 0, and no mean of g is taken out of it (torch: centered=False).

    p changes in place and keeps its storage; its gradient stays as it is. A parameter whose gradient is None is skipped.
    v stands in `self.state[p]`, with p's dtype.

    Args:
        params: Parameters, or dicts with the key "params" and options of that group's own.
        lr: Learning rate, not negative.
        alpha: α, how much of v the next gradient leaves; not negative, and below 1 to be of use.
        eps: ε, not negative.

    Raises:
        ValueError: `lr`, `alpha` or `eps` is negative.

    Example:
        p = 1, g = 2 at the first step, lr = 0.1, α = 0.75, ε = 1: v = 0.25 · 4 = 1, so p = 1 − 0.1 · 2 / (1 + 1) = 0.9.

    Handout §8.1 · optimizers · `pytest -k optimizers`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
    ) -> None:
        # TODO(optimizers): about 4 lines.
        raise NotImplementedError("optimizers: see handout §8.1")

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, by the options of its group.

        Args:
            closure: Computes the loss and its gradients; called once, with gradients on, before anything changes.

        Returns:
            What the closure returned; None without one.
        """
        # TODO(optimizers): about 14 lines.
        raise NotImplementedError("optimizers: see handout §8.1")


def optimizer_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The bytes of what an optimizer keeps for its parameters from one step to the next.

    bytes = Σ elements · bytes of one element, over the tensors in `optimizer.state[p]` of every p. Tensors of one element
    are not counted: as a rule they are counts of steps. Neither is what is no tensor.

    Args:
        optimizer: Any subclass of torch.optim.Optimizer, torch's own as well; one that has not stepped keeps nothing yet.

    Example:
        Adam keeps two means a weight. After a step on a 3×4 float32 weight: 2 · 12 · 4 = 96 bytes.

    Handout §8.1 · optimizers · `pytest -k optimizers`
    """
    # TODO(optimizers): about 2 lines.
    raise NotImplementedError("optimizers: see handout §8.1")


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
        if lr < 0:
            raise ValueError(f"lr must not be negative: {lr}")
        if not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1:
            raise ValueError(f"betas must be in [0, 1): {betas}")
        if eps < 0:
            raise ValueError(f"eps must not be negative: {eps}")
        if weight_decay < 0:
            raise ValueError(f"weight_decay must not be negative: {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, by the options of its group.

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
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * p.grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * p.grad**2
                m = state["m"] / (1 - beta1 ** state["t"])
                v = state["v"] / (1 - beta2 ** state["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / torch.sqrt(v + group["eps"]))
        return loss


def clip_gradient_norm(parameters: Iterable[nn.Parameter], max_l2_norm: float, eps: float = 1e-6) -> Float[Tensor, ""]:
    """Shorten the gradient, if it is longer than max_l2_norm, and keep its direction.

    All gradients together are one vector g, with one norm:

    ‖g‖ = √(Σ of the squares of every entry of every gradient)
    g ← g · max_l2_norm / (‖g‖ + ε)      only where ‖g‖ > max_l2_norm; otherwise no bit of a gradient changes

    Gradients change in place: each stays the same tensor with its own dtype. Parameters whose gradient is None have no
    part in it.

    Args:
        parameters: Any iterable of parameters, a generator as well.
        max_l2_norm: The largest norm that is left as it is, not negative; 0 makes every gradient 0.
        eps: ε, so that nothing is divided by 0.

    Returns:
        ‖g‖ as it was before, a tensor without dimensions; 0 where no parameter has a gradient.

    Raises:
        ValueError: `max_l2_norm` is negative.

    Example:
        Gradients [3] and [0, 4] have the norm 5. With max_l2_norm = 1 and ε = 5 they become [0.3] and [0, 0.4]: 1 / (5 + 5)
        of what they were.

    Handout §8.3 · gradient_clipping · `pytest -k gradient_clipping`
    """
    # TODO(gradient_clipping): about 10 lines.
    raise NotImplementedError("gradient_clipping: see handout §8.3")


def lr_cosine_schedule(
    it: int, max_learning_rate: float, min_learning_rate: float, warmup_iters: int, cosine_cycle_iters: int
) -> float:
    """The learning rate of iteration `it`: up in a straight line, down along half a cosine, and then flat.

    it < warmup_iters                          max · it / warmup_iters
    warmup_iters ≤ it < cosine_cycle_iters     min + (max − min) · (1 + cos(π x)) / 2,
                                               x = (it − warmup_iters) / (cosine_cycle_iters − warmup_iters)
    cosine_cycle_iters ≤ it                    min

    Args:
        it: The iteration, from 0.
        max_learning_rate: The rate at the end of the warm-up.
        min_learning_rate: The rate after the cosine.
        warmup_iters: How many iterations the warm-up takes; 0 for none.
        cosine_cycle_iters: The iteration at which the cosine ends, counted from 0 and not from the warm-up's end; where it is
            warmup_iters, there is no cosine.

    Raises:
        ValueError: `it` or `warmup_iters` is negative, or `cosine_cycle_iters` is below `warmup_iters`.

    Example:
        max 1, min 0.1, warm-up until 10, cosine until 30: 0.5 at iteration 5, 1 at 10, halfway down 0.55 at 20, 0.1 from
        30 on.

    Handout §8.4 · lr_schedule · `pytest -k lr_schedule`
    """
    # TODO(lr_schedule): about 10 lines.
    raise NotImplementedError("lr_schedule: see handout §8.4")
