# Right solutions of adamw in other styles; see grader/solutions/fragments.py.

# [data_and_get] Like a first tutorial: uses state.get, creates new moments in each step, and
# changes p.data.
import math

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            beta_1, beta_2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                grad = p.grad.data
                t = state.get("t", 1)
                m = beta_1 * state.get("m", torch.zeros_like(grad)) + (1 - beta_1) * grad
                v = beta_2 * state.get("v", torch.zeros_like(grad)) + (1 - beta_2) * grad**2
                alpha = group["lr"] * math.sqrt(1 - beta_2**t) / (1 - beta_1**t)
                eps = group["eps"] * math.sqrt(1 - beta_2**t)
                p.data -= group["lr"] * group["weight_decay"] * p.data
                p.data -= alpha * m / (torch.sqrt(v) + eps)
                state["t"] = t + 1
                state["m"], state["v"] = m, v
        return loss


# [foreach] Updates all parameters of a group at once with torch._foreach operations, and refuses
# options that make no sense.
import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        if min(lr, eps, weight_decay) < 0:
            raise ValueError(f"negative: {lr}, {eps} or {weight_decay}")
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ValueError(f"betas must be in [0, 1), got {betas}")
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            if params:
                self._step_together(params, group)
        return loss

    def _step_together(self, params, group):
        lr, (beta1, beta2), eps = group["lr"], group["betas"], group["eps"]
        grads = [p.grad for p in params]
        for p in params:
            if p not in self.state:
                state = {"exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
                self.state[p] = {"step": 0, **state}
            self.state[p]["step"] += 1
        means = [self.state[p]["exp_avg"] for p in params]
        squares = [self.state[p]["exp_avg_sq"] for p in params]
        steps = [self.state[p]["step"] for p in params]
        torch._foreach_lerp_(means, grads, 1 - beta1)
        torch._foreach_mul_(squares, beta2)
        torch._foreach_addcmul_(squares, grads, grads, 1 - beta2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, [(1 - beta2**t) ** 0.5 for t in steps])
        torch._foreach_add_(roots, eps)
        torch._foreach_mul_(params, 1 - lr * group["weight_decay"])
        torch._foreach_addcdiv_(params, means, roots, [-lr / (1 - beta1**t) for t in steps])


# [tensor_step] The step count is a float32 tensor, from which the bias corrections are computed.
import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

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
