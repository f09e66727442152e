"""Chapter 8: optimizers and their state, gradient clipping, and a learning rate schedule.

An optimizer holds parameter groups: lists of parameters, each list with its own options. A
step reads every parameter's gradient and changes the parameter in place. What the optimizer
must remember from one step to the next, such as a running mean of the gradients, belongs in
`self.state[parameter]`. This dict is empty at first; state_dict saves it, and
load_state_dict restores it.
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
        params: Parameters, or one dict per group with the key "params" and the group's own options.
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
        """Change every parameter that has a gradient.

        Args:
            closure: Computes the loss and its gradients. Call it once, before any parameter
                changes, with gradients enabled if they were when step was called.

        Returns:
            The closure's result, or None without a closure.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:  # p has no part in this loss: leave it and its state alone
                    continue
                state = self.state[p]
                if not state:
                    state["mean"] = torch.zeros_like(p)
                state["mean"].lerp_(p.grad, 1 - group["beta"])
                p.sub_(state["mean"].sign(), alpha=group["lr"])
        return loss


class SGD(torch.optim.Optimizer):
    """Step against the gradient or, with momentum, against a decaying sum of the gradients so far.

    For each parameter p with gradient g, in this order:

    b ← μ b + g                     μ is momentum; b starts at 0, so b = g after the first step
    p ← p − lr · b

    This is torch's form, without dampening: g itself is added to μ b, not (1 − μ) g. lr is not part
    of b, so a new lr acts on the whole step at once.

    Change p in place, so that it keeps its storage, and leave its gradient as it is. Skip a
    parameter whose gradient is None. Keep b in `self.state[p]`, with p's dtype. With momentum 0 the
    step is p ← p − lr · g, and no b is made.

    Args:
        params: Parameters, or one dict per group with the key "params" and the group's own options.
        lr: Learning rate; it may be 0.
        momentum: μ, in [0, 1).

    Example:
        p = 1, g = 2 at every step, lr = 0.1, μ = 0.5. b is 2, then 0.5 · 2 + 2 = 3:
        p = 1 − 0.2 = 0.8, then 0.8 − 0.3 = 0.5.

    Handout §8.1 · `python -m assignment check optimizers`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
    ) -> None:
        # BEGIN SOLUTION(optimizers)
        super().__init__(params, {"lr": lr, "momentum": momentum})
        # END SOLUTION

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, using the options of its group.

        Args:
            closure: Computes the loss and its gradients. Call it once, before any parameter
                changes, with gradients enabled if they were when step was called.

        Returns:
            The closure's result, or None without a closure.
        """
        # BEGIN SOLUTION(optimizers)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                direction = p.grad
                if group["momentum"]:
                    state = self.state[p]
                    if not state:
                        state["velocity"] = torch.zeros_like(p)
                    direction = state["velocity"].mul_(group["momentum"]).add_(p.grad)
                p.sub_(direction, alpha=group["lr"])
        return loss
        # END SOLUTION


class AdaGrad(torch.optim.Optimizer):
    """Divide each step by the root of the sum of all squared gradients so far.

    For each parameter p with gradient g, in this order:

    s ← s + g²                      starts at 0
    p ← p − lr · g / (√s + ε)       ε is added to the root

    Change p in place, so that it keeps its storage, and leave its gradient as it is. Skip a
    parameter whose gradient is None. Keep s in `self.state[p]`, with p's dtype.

    Args:
        params: Parameters, or one dict per group with the key "params" and the group's own options.
        lr: Learning rate; it may be 0.
        eps: ε; it may be 0, where no 0 / 0 occurs.

    Example:
        p = 1, lr = 0.1, ε = 1, gradients 3 and then 4. s is 9, then 25:
        p = 1 − 0.1 · 3 / (3 + 1) = 0.925, then 0.925 − 0.1 · 4 / (5 + 1) = 0.8583.

    Handout §8.1 · `python -m assignment check optimizers`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-2,
        eps: float = 1e-10,
    ) -> None:
        # BEGIN SOLUTION(optimizers)
        super().__init__(params, {"lr": lr, "eps": eps})
        # END SOLUTION

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, using the options of its group.

        Args:
            closure: Computes the loss and its gradients. Call it once, before any parameter
                changes, with gradients enabled if they were when step was called.

        Returns:
            The closure's result, or None without a closure.
        """
        # BEGIN SOLUTION(optimizers)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["sum"] = torch.zeros_like(p)
                state["sum"].addcmul_(p.grad, p.grad)
                p.addcdiv_(p.grad, state["sum"].sqrt() + group["eps"], value=-group["lr"])
        return loss
        # END SOLUTION


class RMSProp(torch.optim.Optimizer):
    """Like AdaGrad, but divide each step by the root of a running mean of the squared gradients.

    For each parameter p with gradient g, in this order:

    v ← α v + (1 − α) g²            α is alpha; starts at 0
    p ← p − lr · g / (√v + ε)       ε is added to the root

    v gets no bias correction, and the mean of g is not subtracted from it
    (in torch: centered=False).

    Change p in place, so that it keeps its storage, and leave its gradient as it is. Skip a
    parameter whose gradient is None. Keep v in `self.state[p]`, with p's dtype.

    Args:
        params: Parameters, or one dict per group with the key "params" and the group's own options.
        lr: Learning rate; it may be 0.
        alpha: α, the weight of the old v, in [0, 1).
        eps: ε; it may be 0, where no 0 / 0 occurs.

    Example:
        p = 1, g = 2 at the first step, lr = 0.1, α = 0.75, ε = 1: v = 0.25 · 4 = 1, so
        p = 1 − 0.1 · 2 / (1 + 1) = 0.9.

    Handout §8.1 · `python -m assignment check optimizers`
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
    ) -> None:
        # BEGIN SOLUTION(optimizers)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})
        # END SOLUTION

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, using the options of its group.

        Args:
            closure: Computes the loss and its gradients. Call it once, before any parameter
                changes, with gradients enabled if they were when step was called.

        Returns:
            The closure's result, or None without a closure.
        """
        # BEGIN SOLUTION(optimizers)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean_square"] = torch.zeros_like(p)
                state["mean_square"].mul_(group["alpha"]).addcmul_(
                    p.grad, p.grad, value=1 - group["alpha"]
                )
                p.addcdiv_(p.grad, state["mean_square"].sqrt() + group["eps"], value=-group["lr"])
        return loss
        # END SOLUTION


def optimizer_state_bytes(optimizer: torch.optim.Optimizer) -> int:
    """The bytes that an optimizer keeps for its parameters from one step to the next.

    bytes = Σ elements · bytes per element, over the tensors in `optimizer.state[p]` of
    every p. Leave out tensors with one element, which usually count steps, and everything
    that is not a tensor, such as a list of tensors.

    Args:
        optimizer: Any torch.optim.Optimizer, including torch's own. It keeps nothing before
            its first step, and counting adds nothing to its state.

    Example:
        Adam keeps two means per weight. After a step on a 3×4 float32 weight:
        2 · 12 · 4 = 96 bytes.

    Handout §8.1 · `python -m assignment check optimizers`
    """
    # BEGIN SOLUTION(optimizers)
    kept = [
        x for state in optimizer.state.values() for x in state.values() if isinstance(x, Tensor)
    ]
    return sum(x.numel() * x.element_size() for x in kept if x.numel() > 1)
    # END SOLUTION


class AdamW(torch.optim.Optimizer):
    """Move each weight by about lr per step, whatever its gradients' scale; decay it separately.

    For each parameter p with gradient g, in this order:

    t ← t + 1                       each p has its own count of steps
    p ← p − lr · λ · p              λ is weight_decay
    m ← β₁ m + (1 − β₁) g           starts at 0
    v ← β₂ v + (1 − β₂) g²          starts at 0
    m̂ = m / (1 − β₁ᵗ)
    v̂ = v / (1 − β₂ᵗ)
    p ← p − lr · m̂ / (√v̂ + ε)       ε is added to the root

    This is torch's form. Other texts use lr · √(1 − β₂ᵗ) / (1 − β₁ᵗ) · m / (√v + ε), which makes ε
    larger in the first steps, or decay the parameter after the step. Both give weights that differ
    from torch's, and this problem asks for neither.

    Change p in place, so that it keeps its storage, and leave its gradient as it is. Skip a
    parameter whose gradient is None: it does not decay, and its t does not change. Keep m, v and t
    in `self.state[p]`, m and v with p's dtype. Each must survive load_state_dict, which leaves an
    int as it is but gives p's dtype to a tensor, unless its key is "step". Float32 is exact enough
    for βᵗ.

    Args:
        params: Parameters, or one dict per group with the key "params" and the group's own options.
        lr: Learning rate; it may be 0.
        betas: β₁ and β₂, both in [0, 1).
        eps: ε; it may be 0, where no 0 / 0 occurs.
        weight_decay: λ; it may be 0.

    Example:
        p = 1, g = 0.01 at every step, lr = 0.1, ε = 0.01, λ = 0.5. Because g is constant, m̂ = 0.01
        and √v̂ = 0.01: p becomes 1 · 0.95 − 0.1 · 0.01 / 0.02 = 0.9, then
        0.9 · 0.95 − 0.05 = 0.805.

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
        # BEGIN SOLUTION(adamw)
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )
        # END SOLUTION

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient, using the options of its group.

        Args:
            closure: Computes the loss and its gradients. Call it once, before any parameter
                changes, with gradients enabled if they were when step was called.

        Returns:
            The closure's result, or None without a closure.
        """
        # BEGIN SOLUTION(adamw)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                m, v, t = state["m"], state["v"], state["step"]
                p.mul_(1 - lr * group["weight_decay"])
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                root = (v / (1 - beta2**t)).sqrt()
                p.addcdiv_(m, root + group["eps"], value=-lr / (1 - beta1**t))
        return loss
        # END SOLUTION


def clip_gradient_norm(
    parameters: Iterable[nn.Parameter], max_l2_norm: float, eps: float = 1e-6
) -> Float[Tensor, ""]:
    """If the gradient is longer than max_l2_norm, shorten it to that length and keep its direction.

    All gradients together are one vector g with one norm:

    ‖g‖ = √(Σ of the squares of every entry of every gradient)
    g ← g · max_l2_norm / (‖g‖ + ε)      only if ‖g‖ > max_l2_norm

    Otherwise the gradients stay as they are.

    Change the gradients in place: each stays the same tensor with its own storage and dtype. Skip
    parameters whose gradient is None. In float16 an entry's square may overflow, or become 0,
    although the norm fits, and the factor of g may become 0, although its products fit. To divide
    an entry by the norm first is accepted, although a small entry may then become 0. In other
    dtypes entries are not so large or small. A sum in bfloat16 stops growing at 256 ones: add up in
    float32 or wider. If an entry is NaN or infinite, the gradients may become anything.

    Args:
        parameters: Any iterable of parameters, each of them once. `model.parameters()` is a
            generator, which can be iterated over only once.
        max_l2_norm: The largest norm that is left as it is; it may be 0 or infinite.
        eps: ε, which prevents a division by 0; it may be 0.

    Returns:
        ‖g‖ before clipping, as a 0-dimensional tensor, which is float64 if all gradients are. It is
        0 if no parameter has a gradient.

    Example:
        Gradients [3] and [0, 4] have the norm 5. With max_l2_norm = 1 and ε = 5 they are multiplied
        by 1 / (5 + 5) and become [0.3] and [0, 0.4].

    Handout §8.3 · `python -m assignment check gradient_clipping`
    """
    # BEGIN SOLUTION(gradient_clipping)
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (float(norm) + eps))
    return norm
    # END SOLUTION


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
        it: The iteration, counted from 0.
        max_learning_rate: The rate at the end of the warm-up; it may be 0.
        min_learning_rate: The rate after the cosine, between 0 and max_learning_rate.
        warmup_iters: The number of warm-up iterations; 0 means no warm-up.
        cosine_cycle_iters: The iteration at which the cosine ends, counted from 0 and not from the
            end of the warm-up; at least warmup_iters.

    Returns:
        The rate. Single precision is enough: an error of 1e-6 · max_learning_rate is accepted.

    Example:
        max 1, min 0.1, warm-up until 10, cosine until 30: 0.5 at iteration 5, 1 at 10, 0.55 at 20
        (halfway down), and 0.1 from 30 on.

    Handout §8.4 · `python -m assignment check lr_schedule`
    """
    # BEGIN SOLUTION(lr_schedule)
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it >= cosine_cycle_iters:
        return min_learning_rate
    progress = (it - warmup_iters) / (cosine_cycle_iters - warmup_iters)
    return (
        min_learning_rate
        + (max_learning_rate - min_learning_rate) * (1 + math.cos(math.pi * progress)) / 2
    )
    # END SOLUTION
