"""The step size √(1 − β₂ᵗ) / (1 − β₁ᵗ) stands for the two corrections.

is: eps_scaled_by_bias_correction
"""


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, decay, eps = group["lr"], group["weight_decay"], group["eps"]
            b1, b2 = group["betas"]
            for w in group["params"]:
                g = w.grad
                if g is None:
                    continue
                s = self.state[w]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(w), torch.zeros_like(w)
                s["t"] += 1
                w -= lr * decay * w
                s["m"].lerp_(g, 1 - b1)
                s["v"].lerp_(g.square(), 1 - b2)
                alpha = lr * math.sqrt(1 - b2 ** s["t"]) / (1 - b1 ** s["t"])
                w.addcdiv_(s["m"], s["v"].sqrt() + eps, value=-alpha)
        return loss
