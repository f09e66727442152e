"""The moments are made on the CPU, wherever the parameter is.

hint: torch.zeros_like(p) is where p is
device: cuda
"""


class AdamW(torch.optim.Optimizer):
    def __init__(self, params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            lr, (beta1, beta2) = group["lr"], group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros(p.shape, dtype=p.dtype), v=torch.zeros(p.shape, dtype=p.dtype))
                state["step"] += 1
                m, v, t = state["m"], state["v"], state["step"]
                p.mul_(1 - lr * group["weight_decay"])
                m.mul_(beta1).add_(p.grad, alpha=1 - beta1)
                v.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                root = (v / (1 - beta2**t)).sqrt()
                p.addcdiv_(m, root + group["eps"], value=-lr / (1 - beta1**t))
        return loss
