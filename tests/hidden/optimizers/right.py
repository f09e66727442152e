# Right solutions of optimizers in other styles; see grader/solutions/fragments.py.


# [looks_every_state_up] Looks up the state of every parameter, also where it stays empty.
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


# [one_base_class] One base class contains the loop; each optimizer only turns a gradient into a
# direction.
import torch


class Stepper(torch.optim.Optimizer):
    """Move every parameter against `direction`."""

    def __init__(self, params, **options):
        for name, value in options.items():
            if value < 0:
                raise ValueError(f"{name} is negative: {value}")
        super().__init__(params, options)

    def direction(self, gradient, state, options):
        raise NotImplementedError

    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure else None
        with torch.no_grad():
            for group in self.param_groups:
                for p in filter(lambda p: p.grad is not None, group["params"]):
                    p -= group["lr"] * self.direction(p.grad, self.state[p], group)
        return loss


class SGD(Stepper):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        super().__init__(params, lr=lr, momentum=momentum)

    def direction(self, gradient, state, options):
        if not options["momentum"]:
            return gradient
        state["b"] = (
            torch.add(gradient, state["b"], alpha=options["momentum"])
            if "b" in state
            else gradient.clone()
        )
        return state["b"]


class AdaGrad(Stepper):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        super().__init__(params, lr=lr, eps=eps)

    def direction(self, gradient, state, options):
        state["s"] = torch.addcmul(state.get("s", torch.zeros_like(gradient)), gradient, gradient)
        return gradient / (state["s"].sqrt() + options["eps"])


class RMSProp(Stepper):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        super().__init__(params, lr=lr, alpha=alpha, eps=eps)

    def direction(self, gradient, state, options):
        v = state.get("v", torch.zeros_like(gradient))
        state["v"] = torch.lerp(gradient.square(), v, options["alpha"])
        return gradient / (state["v"].sqrt() + options["eps"])


def optimizer_state_bytes(optimizer):
    tensors = [
        value
        for state in dict(optimizer.state).values()
        for value in state.values()
        if torch.is_tensor(value)
    ]
    return sum(x.nbytes for x in tensors if x.numel() > 1)


# [state_with_the_group] Creates the state with the group, as a tuple of tensors.
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
