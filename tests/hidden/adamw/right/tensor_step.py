"""The step count is a float32 tensor, from which the bias corrections are computed."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if not lr >= 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        if not weight_decay >= 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"Invalid betas: {betas}")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group):
        beta1, beta2 = group["betas"]
        for p in group["params"]:
            if p.grad is None:
                continue
            state = self.state[p]
            if len(state) == 0:
                state["step"] = torch.zeros(())
                state["exp_avg"] = torch.zeros_like(p)
                state["exp_avg_sq"] = torch.zeros_like(p)
            state["step"] += 1
            state["exp_avg"].mul_(beta1).add_(p.grad * (1 - beta1))
            state["exp_avg_sq"].mul_(beta2).add_(p.grad.pow(2) * (1 - beta2))
            correction1 = 1 - beta1 ** state["step"]
            correction2 = 1 - beta2 ** state["step"]
            denominator = (state["exp_avg_sq"] / correction2).sqrt() + group["eps"]
            p *= 1 - group["lr"] * group["weight_decay"]
            p -= group["lr"] * (state["exp_avg"] / correction1) / denominator
