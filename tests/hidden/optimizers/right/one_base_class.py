"""One base class contains the loop; each optimizer only turns a gradient into a direction."""

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
