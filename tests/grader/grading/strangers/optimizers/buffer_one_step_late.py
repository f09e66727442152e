"""The step is taken with the buffer of the step before."""


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        value = None
        if closure:
            with torch.enable_grad():
                value = closure()
        for group in self.param_groups:
            mu = group["momentum"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                if not mu:
                    w.add_(w.grad, alpha=-group["lr"])
                    continue
                b = self.state[w].setdefault("b", torch.zeros_like(w))
                w.add_(b, alpha=-group["lr"])
                b.mul_(mu).add_(w.grad)
        return value
