"""Looks up the state of every parameter, also where it stays empty."""

import torch
from torch import Tensor


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, mu = group["lr"], group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                update = p.grad
                if mu != 0:
                    if "velocity" in state:
                        state["velocity"] = state["velocity"] * mu + p.grad
                    else:
                        state["velocity"] = p.grad.clone()
                    update = state["velocity"]
                p -= lr * update
        return loss


def optimizer_state_bytes(optimizer):
    return sum(
        value.nbytes
        for group in optimizer.param_groups
        for p in group["params"]
        for value in optimizer.state[p].values()
        if isinstance(value, Tensor) and value.numel() > 1
    )
