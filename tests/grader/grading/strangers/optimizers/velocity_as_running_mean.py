"""The buffer is a running mean of the gradients, μ b + (1 − μ) g.

is: sgd_dampened
"""


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
            for w in (w for w in group["params"] if w.grad is not None):
                if mu == 0:
                    w -= group["lr"] * w.grad
                else:
                    b = self.state[w].setdefault("b", torch.zeros_like(w))
                    b.lerp_(w.grad, 1 - mu)
                    w -= group["lr"] * b
        return value
