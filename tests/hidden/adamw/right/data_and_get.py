"""Like a first tutorial: uses state.get, creates new moments in each step, and changes p.data."""

import math

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        if not 0.0 <= betas[0] < 1.0:
            raise ValueError(f"Invalid beta parameter at index 0: {betas[0]}")
        if not 0.0 <= betas[1] < 1.0:
            raise ValueError(f"Invalid beta parameter at index 1: {betas[1]}")
        if weight_decay < 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            beta_1, beta_2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.data
                t = state.get("t", 1)
                m = beta_1 * state.get("m", torch.zeros_like(grad)) + (1 - beta_1) * grad
                v = beta_2 * state.get("v", torch.zeros_like(grad)) + (1 - beta_2) * grad**2
                alpha = group["lr"] * math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
                eps = group["eps"] * math.sqrt(1 - beta_2**t)
                p.data -= group["lr"] * group["weight_decay"] * p.data
                p.data -= alpha * m / (torch.sqrt(v) + eps)
                state["t"] = t + 1
                state["m"], state["v"] = m, v
        return loss
