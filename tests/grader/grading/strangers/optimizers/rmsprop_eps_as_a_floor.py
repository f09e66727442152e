"""The larger of the root and ε divides the step."""


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        out = None
        if closure is not None:
            with torch.enable_grad():
                out = closure()
        for o in self.param_groups:
            floor = torch.tensor(o["eps"])
            for theta in [q for q in o["params"] if q.grad is not None]:
                v = self.state[theta].setdefault("v", torch.zeros_like(theta))
                v.copy_(o["alpha"] * v + (1 - o["alpha"]) * theta.grad**2)
                theta.add_(theta.grad / torch.maximum(v.sqrt(), floor.to(v)), alpha=-o["lr"])
        return out
