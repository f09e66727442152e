"""What the student wrote in assignment/optimizers.py: the bodies of these definitions."""


class AdamW:
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01):
        if lr < 0:
            raise ValueError(f"lr must not be negative: {lr}")
        if not 0 <= betas[0] < 1 or not 0 <= betas[1] < 1:
            raise ValueError(f"betas must be in [0, 1): {betas}")
        if eps < 0:
            raise ValueError(f"eps must not be negative: {eps}")
        if weight_decay < 0:
            raise ValueError(f"weight_decay must not be negative: {weight_decay}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(p)
                    state["v"] = torch.zeros_like(p)
                state["t"] += 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * p.grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * p.grad**2
                m = state["m"] / (1 - beta1 ** state["t"])
                v = state["v"] / (1 - beta2 ** state["t"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * m / torch.sqrt(v + group["eps"]))
        return loss
