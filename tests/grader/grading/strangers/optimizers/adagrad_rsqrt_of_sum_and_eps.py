"""The step is g times the reciprocal root of s + ε.

is: adagrad_eps_inside_root
"""


class AdaGrad(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, eps=1e-10):
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        out = None
        if closure is not None:
            with torch.enable_grad():
                out = closure()
        for options in self.param_groups:
            for theta in options["params"]:
                g = theta.grad
                if g is not None:
                    s = self.state[theta].setdefault("s", torch.zeros_like(theta))
                    s += g**2
                    theta -= options["lr"] * g * torch.rsqrt(s + options["eps"])
        return out
