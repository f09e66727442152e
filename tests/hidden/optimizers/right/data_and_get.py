"""Like a first tutorial: uses state.get, creates new tensors in each step, and changes p.data."""

import torch


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if group["momentum"] == 0:
                    p.data -= group["lr"] * grad
                    continue
                state = self.state[p]
                b = grad.clone() if "b" not in state else group["momentum"] * state["b"] + grad
                p.data -= group["lr"] * b
                state["b"] = b
        return loss


class AdaGrad(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, {"lr": lr, "eps": eps})

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.data
                state["s"] = state.get("s", 0) + grad**2
                state["t"] = state.get("t", 0) + 1
                p.data -= group["lr"] * grad / (torch.sqrt(state["s"]) + group["eps"])
        return loss


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if eps < 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        if not 0.0 <= alpha < 1.0:
            raise ValueError(f"Invalid alpha value: {alpha}")
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.data
                state["v"] = group["alpha"] * state.get("v", 0) + (1 - group["alpha"]) * grad**2
                p.data -= group["lr"] * grad / (torch.sqrt(state["v"]) + group["eps"])
        return loss


def optimizer_state_bytes(optimizer):
    total = 0
    for group in optimizer.param_groups:
        for p in group["params"]:
            for value in optimizer.state.get(p, {}).values():
                if isinstance(value, torch.Tensor) and value.numel() > 1:
                    total += value.numel() * value.element_size()
    return total
