"""The step adds the gradient to the decayed buffer once more.

is: sgd_nesterov
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
            lr, mu = group["lr"], group["momentum"]
            for w in group["params"]:
                if w.grad is None:
                    continue
                update = w.grad.clone()
                if mu != 0:
                    memory = self.state[w]
                    memory["b"] = update if "b" not in memory else mu * memory["b"] + update
                    update = w.grad + mu * memory["b"]
                w.data.add_(update, alpha=-lr)
        return value
