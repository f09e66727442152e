"""The step is divided by the root of the mean as it was before this gradient."""


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
            for theta in [q for q in o["params"] if q.grad is not None]:
                v = self.state[theta].setdefault("v", torch.zeros_like(theta))
                theta -= o["lr"] * theta.grad / (v.sqrt() + o["eps"])
                v.lerp_(theta.grad.square(), 1 - o["alpha"])
        return out
