"""Keeps the powers of the betas in the state instead of a count; the decay is part of the step."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if lr < 0.0 or eps < 0.0 or weight_decay < 0.0:
            raise ValueError("lr, eps and weight_decay must not be negative")
        if any(b < 0.0 or b >= 1.0 for b in betas):
            raise ValueError("betas must be in [0, 1)")
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def _state_of(self, p):
        s = self.state[p]
        if len(s) == 0:
            s["power1"], s["power2"] = 1.0, 1.0
            s["m"], s["v"] = p.detach() * 0.0, p.detach() * 0.0
        return s

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    s = self._state_of(p)
                    b1, b2 = group["betas"]
                    s["power1"] *= b1
                    s["power2"] *= b2
                    s["m"] += (1 - b1) * (p.grad - s["m"])
                    s["v"] += (1 - b2) * (p.grad.square() - s["v"])
                    direction = (s["m"] / (1 - s["power1"])) / (
                        (s["v"] / (1 - s["power2"])).sqrt() + group["eps"]
                    )
                    p.add_(direction + group["weight_decay"] * p, alpha=-group["lr"])
        return loss
