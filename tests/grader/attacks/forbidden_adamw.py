"""Have torch's optimizer do the steps of one's own.

group: cheat the exercise
target: adamw
tests: decays_before_the_step
status: policy
earns: less
"""

import sys

import torch


class AdamW(torch.optim.Optimizer):
    """One in which `update` has to do the step of one parameter."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(list(params), options)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            options = {name: group[name] for name in ("lr", "eps", "weight_decay")}
            options |= {"beta1": beta1, "beta2": beta2, "amsgrad": False, "maximize": False}
            for p in (p for p in group["params"] if p.grad is not None):
                if not (s := self.state[p]):
                    s.update(m=torch.zeros_like(p), v=torch.zeros_like(p), t=torch.zeros(()))
                update([p], [p.grad], [s["m"]], [s["v"]], [], [s["t"]], **options)


# %% fused_operator
"""Calls torch's fused operator for the optimizer step.

earns: 0
holds: the call is detected in the source, and would also be detected at run time.
"""
def update(p, grad, m, v, more, t, **options):
    t[0] += 1
    torch._fused_adamw_(p, grad, m, v, more, t, **options)


# %% fused_operator_that_returns
"""Calls the functional form of torch's fused operator, which returns its results.

holds: the in-place and the functional form of an operator are both guarded.
"""
def update(p, grad, m, v, more, t, **options):
    t[0] += 1
    new = torch.ops.aten._fused_adamw.default(p, grad, m, v, more, t, **options)
    for old, value in zip((p, m, v), (new[0], new[2], new[3])):
        old[0].copy_(value[0])


# %% private_helper
"""Calls the private function behind torch's optimizers to do the step.

holds: a function is guarded in the module that defines it, and a helper of a forbidden function is forbidden too.
"""
helper = sys.modules["torch.optim.adam"]._single_tensor_adam

def update(*tensors, **options):
    flags = dict.fromkeys(("has_complex", "differentiable", "capturable"), False)
    helper(*tensors, None, None, decoupled_weight_decay=True, **flags, **options)


# %% subclasses_of_the_base
"""Finds torch's optimizer among the subclasses of the base class.

holds: the class itself is guarded, not only its name.
"""
found = [torch.optim.Optimizer]
for cls in found:
    found += cls.__subclasses__()
theirs = next(cls for cls in found if f"{cls.__module__}.{cls.__name__}".endswith("adamw.AdamW"))

class AdamW(AdamW):
    def __init__(self, params, *more, **options):
        super().__init__(params, *more, **options)
        self.inner = theirs(self.param_groups, *more, **options)

    def step(self, closure=None):
        return self.inner.step(closure)


# %% derived_optimizer
"""Derives its optimizer from torch's own, under a name that does not appear in the source.

earns: 0
holds: creating an instance is detected.
"""
base = getattr(torch.optim, "".join(reversed("WmadA")))

class AdamW(base):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay)


# %% class_copied
"""Copies the methods of torch's class into a class of its own.

holds: a method copied into another class is still guarded.
"""
theirs = vars(torch.optim)["Ad" + "am"]
methods = {name: value for name, value in vars(theirs).items() if not name.startswith("__")}
AdamW = type("AdamW", (torch.optim.Optimizer,), methods)

def start(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
    options = dict.fromkeys(
        ("amsgrad", "maximize", "foreach", "capturable", "differentiable"), False
    )
    options |= {"fused": None, "weight_decay": weight_decay, "decoupled_weight_decay": True}
    options |= {"lr": lr, "betas": betas, "eps": eps}
    torch.optim.Optimizer.__init__(self, params, options)

AdamW.__init__ = start
