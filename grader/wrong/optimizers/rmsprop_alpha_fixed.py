"""α is 0.99 whatever was asked for.

hint: read alpha from the group
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
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean_square"] = torch.zeros_like(p)
                state["mean_square"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                p.addcdiv_(p.grad, state["mean_square"].sqrt() + group["eps"], value=-group["lr"])
        return loss
