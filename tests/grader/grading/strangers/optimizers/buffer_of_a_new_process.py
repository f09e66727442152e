"""SGD starts its buffer anew in the first step of each optimizer object, also after a load."""


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.seen = set()

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if group["momentum"] == 0:
                    p.sub_(p.grad, alpha=group["lr"])
                    continue
                if p not in self.seen:
                    self.seen.add(p)
                    self.state[p]["buffer"] = torch.zeros_like(p)
                buffer = self.state[p]["buffer"]
                buffer.mul_(group["momentum"]).add_(p.grad)
                p.sub_(buffer, alpha=group["lr"])
        return loss
