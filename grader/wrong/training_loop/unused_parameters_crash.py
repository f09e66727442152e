"""The norm is taken of every parameter's gradient, also of one that has none.

hint: p.grad is None where no loss depends on p
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters))
    if max_norm is not None and norm > max_norm:
        for p in parameters:
            p.grad.mul_(max_norm / (norm + 1e-6))
    return norm
