"""Buffers are made in __init__, for the parameters of that moment.

hint: add_param_group brings parameters later
"""


class SGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, momentum=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        for group in self.param_groups:
            for p in group["params"]:
                if momentum:
                    self.state[p]["velocity"] = torch.zeros_like(p)

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
                    if state:
                        direction = state["velocity"].mul_(group["momentum"]).add_(p.grad)
                p.sub_(direction, alpha=group["lr"])
        return loss
