"""Computes every step in float64 and rounds once, when copying back."""

import torch


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        if lr < 0 or momentum < 0:
            raise ValueError(f"{lr=} {momentum=}")
        super().__init__(params, defaults={"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for p in [p for p in group["params"] if p.grad is not None]:
                b = p.grad.to(torch.float64, copy=True)  # a buffer must not be the gradient itself
                if momentum != 0.0:
                    if "b" in self.state[p]:
                        b = b + momentum * self.state[p]["b"].double()
                    self.state[p]["b"] = b.to(p.dtype)
                p.copy_(p.double() - lr * b)
        return loss


class AdaGrad(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        if lr < 0 or eps < 0:
            raise ValueError(f"{lr=} {eps=}")
        super().__init__(params, defaults={"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in [p for p in group["params"] if p.grad is not None]:
                g, state = p.grad.double(), self.state[p]
                s = g.pow(2) + (state["s"].double() if state else 0.0)
                state["s"] = s.to(p.dtype)
                p.copy_(p.double() - group["lr"] * g / (s.pow(0.5) + group["eps"]))
        return loss


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        if lr < 0 or alpha < 0 or eps < 0:
            raise ValueError(f"{lr=} {alpha=} {eps=}")
        super().__init__(params, defaults={"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            alpha = group["alpha"]
            for p in [p for p in group["params"] if p.grad is not None]:
                g, state = p.grad.double(), self.state[p]
                v = (1 - alpha) * g.pow(2) + (alpha * state["v"].double() if state else 0.0)
                state["v"] = v.to(p.dtype)
                p.copy_(p.double() - group["lr"] * g / (v.pow(0.5) + group["eps"]))
        return loss
