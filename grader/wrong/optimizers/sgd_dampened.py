"""Momentum takes a mean of the gradients: each one enters it times 1 − momentum.

hint: in b every gradient counts whole: b ← momentum · b + g
"""


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})

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
                direction = p.grad
                if group["momentum"]:
                    state = self.state[p]
                    if not state:
                        state["velocity"] = torch.zeros_like(p)
                    direction = state["velocity"].lerp_(p.grad, 1 - group["momentum"])
                p.sub_(direction, alpha=group["lr"])
        return loss
