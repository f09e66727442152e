"""The decay takes lr λ off each weight's magnitude, as for an L1 norm."""


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
                w.sub_(w.sign(), alpha=lr * decay)
                s["m"].lerp_(g, 1 - b1)
                s["v"].lerp_(g.square(), 1 - b2)
                m_hat = s["m"] / (1 - b1 ** s["t"])
                v_hat = s["v"] / (1 - b2 ** s["t"])
                w -= lr * m_hat / (v_hat.sqrt() + eps)
        return loss
