"""Buffers stand in a dict of their own, which state_dict does not know.

hint: self.state[p] is what state_dict saves
"""


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.buffers = {}

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
                    state = self.buffers.setdefault(p, {})
                    if not state:
                        state["velocity"] = torch.zeros_like(p)
                    direction = state["velocity"].mul_(group["momentum"]).add_(p.grad)
                p.sub_(direction, alpha=group["lr"])
        return loss
