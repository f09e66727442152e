"""Creates the state with the group, as a tuple of tensors."""

import torch


def called(closure):
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        if lr < 0:
            raise ValueError("lr < 0")
        if momentum < 0:
            raise ValueError("momentum < 0")
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        if group["momentum"] > 0:
            for p in group["params"]:
                self.state[p]["memory"] = (torch.zeros_like(p, requires_grad=False),)

    @torch.no_grad()
    def step(self, closure=None):
        loss = called(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    step = p.grad
                    if group["momentum"] > 0:
                        (step,) = self.state[p]["memory"]
                        step.mul_(group["momentum"]).add_(p.grad)
                    p.copy_(p - group["lr"] * step)
        return loss


class AdaGrad(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        if lr < 0:
            raise ValueError("lr < 0")
        if eps < 0:
            raise ValueError("eps < 0")
        super().__init__(params, {"lr": lr, "eps": eps})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            self.state[p]["memory"] = (torch.zeros_like(p, requires_grad=False), torch.tensor(0.0))

    @torch.no_grad()
    def step(self, closure=None):
        loss = called(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                squares, count = self.state[p]["memory"]
                count += 1
                squares += p.grad.to(squares.dtype) ** 2
                p.copy_(p - group["lr"] * p.grad / (squares.sqrt() + group["eps"]))
        return loss


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        for name, value in {"lr": lr, "alpha": alpha, "eps": eps}.items():
            if not value >= 0:
                raise ValueError(f"{name} < 0")
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            self.state[p]["memory"] = (torch.zeros_like(p, requires_grad=False), torch.tensor(0.0))

    @torch.no_grad()
    def step(self, closure=None):
        loss = called(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean, count = self.state[p]["memory"]
                count += 1
                mean += (1 - group["alpha"]) * (p.grad.to(mean.dtype) ** 2 - mean)
                p.copy_(p - group["lr"] * p.grad / (mean.sqrt() + group["eps"]))
        return loss
