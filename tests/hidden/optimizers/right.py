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
        before = state.get("b", torch.zeros_like(gradient))
        state["b"] = torch.add(gradient, before, alpha=options["momentum"])
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


# [state_with_the_group] Creates the state with the group, as a tuple of tensors.
import torch


def called(closure):
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


class Prepared(torch.optim.Optimizer):
    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for p in group["params"] if group.get("momentum", 1) > 0 else ():
            self.state[p]["memory"] = (torch.zeros_like(p, requires_grad=False), torch.tensor(0.0))

    @torch.no_grad()
    def step(self, closure=None):
        loss = called(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                memory, count = self.state[p]["memory"] if p in self.state else (None, 0)
                count += 1
                p.copy_(p - group["lr"] * self.direction(p.grad, memory, group))
        return loss


class SGD(Prepared):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def direction(self, grad, memory, group):
        return grad if memory is None else memory.mul_(group["momentum"]).add_(grad)


class AdaGrad(Prepared):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        super().__init__(params, {"lr": lr, "eps": eps})

    def direction(self, grad, squares, group):
        squares += grad.to(squares.dtype) ** 2
        return grad / (squares.sqrt() + group["eps"])


class RMSProp(Prepared):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    def direction(self, grad, mean, group):
        mean += (1 - group["alpha"]) * (grad.to(mean.dtype) ** 2 - mean)
        return grad / (mean.sqrt() + group["eps"])
