"""The new value is a new parameter in the group; the model keeps the old one.

hint: an in-place operation such as p.addcdiv_
"""


class RMSProp(torch.optim.Optimizer):
    def __init__(self, params, lr=0.01, alpha=0.99, eps=1e-08):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for i, p in enumerate(group["params"]):
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean_square"] = torch.zeros_like(p)
                state["mean_square"].mul_(group["alpha"]).addcmul_(p.grad, p.grad, value=1 - group["alpha"])
                new = p - group["lr"] * p.grad / (state["mean_square"].sqrt() + group["eps"])
                group["params"][i] = torch.nn.Parameter(new)
                group["params"][i].grad = p.grad
                self.state[group["params"][i]] = self.state.pop(p)
        return loss
