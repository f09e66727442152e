"""Creates the state with the group, with both moments in one tensor."""

import torch


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        ranges = {"lr": lr >= 0, "eps": eps >= 0, "weight_decay": weight_decay >= 0}
        ranges["betas"] = all(0 <= beta < 1 for beta in betas)
        if wrong := [name for name, fits in ranges.items() if not fits]:
            raise ValueError(f"out of range: {', '.join(wrong)}")
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            moments = torch.zeros(2, *p.shape, dtype=p.dtype, device=p.device)
            self.state[p] = {"moments": moments, "steps": [0]}

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(
                        p, self.state[p], **{k: v for k, v in group.items() if k in self.defaults}
                    )
        return loss

    def _step_one(self, p, state, lr, betas, eps, weight_decay):
        state["steps"][0] += 1
        m, v = state["moments"]
        for moment, power, beta in [(m, 1, betas[0]), (v, 2, betas[1])]:
            moment.add_(p.grad.to(moment.dtype) ** power - moment, alpha=1 - beta)
        m_hat, v_hat = (
            x / (1 - beta ** state["steps"][0]) for x, beta in zip((m, v), betas, strict=True)
        )
        new = p * (1 - lr * weight_decay) - lr * m_hat / (v_hat.sqrt() + eps)
        p.copy_(new)
