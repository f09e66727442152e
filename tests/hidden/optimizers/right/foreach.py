"""Updates all parameters of a group at once with torch._foreach operations."""

import torch


def loss_of(closure):
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def kept(optimizer, params, name):
    for p in params:
        if name not in optimizer.state[p]:
            optimizer.state[p][name] = torch.zeros_like(p, memory_format=torch.preserve_format)
    return [optimizer.state[p][name] for p in params]


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        if not (lr >= 0 and momentum >= 0):
            raise ValueError(f"lr and momentum must not be negative, got {lr} and {momentum}")
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        loss = loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            steps = [p.grad for p in params]
            if group["momentum"] != 0:
                buffers = kept(self, params, "momentum_buffer")
                torch._foreach_mul_(buffers, group["momentum"])
                torch._foreach_add_(buffers, steps)
                steps = buffers
            torch._foreach_add_(params, steps, alpha=-group["lr"])
        return loss


class AdaGrad(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        if not (lr >= 0 and eps >= 0):
            raise ValueError(f"lr and eps must not be negative, got {lr} and {eps}")
        super().__init__(params, dict(lr=lr, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [p.grad for p in params]
            sums = kept(self, params, "sum")
            torch._foreach_addcmul_(sums, grads, grads, value=1.0)
            roots = torch._foreach_sqrt(sums)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_addcdiv_(params, grads, roots, value=-group["lr"])
        return loss


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        if not (lr >= 0 and alpha >= 0 and eps >= 0):
            raise ValueError(f"lr, alpha and eps must not be negative, got {lr}, {alpha} and {eps}")
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = loss_of(closure)
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if not params:
                continue
            grads = [p.grad for p in params]
            means = kept(self, params, "square_avg")
            torch._foreach_mul_(means, group["alpha"])
            torch._foreach_addcmul_(means, grads, grads, value=1 - group["alpha"])
            roots = torch._foreach_sqrt(means)
            torch._foreach_add_(roots, group["eps"])
            torch._foreach_addcdiv_(params, grads, roots, value=-group["lr"])
        return loss


def optimizer_state_bytes(optimizer):
    values = [
        value for state in optimizer.state_dict()["state"].values() for value in state.values()
    ]
    return sum(value.nbytes for value in values if torch.is_tensor(value) and value.numel() != 1)
