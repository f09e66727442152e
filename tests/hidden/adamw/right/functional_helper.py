"""A pure function computes the new parameter and moments, and the class copies them back."""

from typing import NamedTuple

import torch


class Options(NamedTuple):
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float


def updated(p, g, m, v, t, options):
    beta1, beta2 = options.betas
    m = torch.lerp(g, m, beta1)
    v = torch.lerp(g.square(), v, beta2)
    direction = (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + options.eps)
    return p - options.lr * (options.weight_decay * p + direction), m, v


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        options = Options(lr, betas, eps, weight_decay)
        for name in ("lr", "eps", "weight_decay"):
            if getattr(options, name) < 0:
                raise ValueError(f"{name} is negative")
        for beta in betas:
            if beta < 0 or beta >= 1:
                raise ValueError(f"each of betas must be in [0, 1), got {beta}")
        super().__init__(params, options._asdict())

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            options = Options(**{name: group[name] for name in Options._fields})
            for p in filter(lambda p: p.grad is not None, group["params"]):
                t, m, v = self.state[p].get("memory", (0, torch.zeros_like(p), torch.zeros_like(p)))
                new, m, v = updated(p, p.grad, m, v, t + 1, options)
                p.copy_(new)
                self.state[p]["memory"] = (t + 1, m, v)
        return loss
