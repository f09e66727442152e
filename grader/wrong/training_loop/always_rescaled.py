"""Gradients are scaled to max_grad_norm also where they are shorter.

hint: only where the norm is above the limit
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = nn.utils.clip_grad_norm_(parameters, math.inf)
    if max_norm is not None:
        for p in parameters:
            p.grad.mul_(max_norm / (norm + 1e-6))
    return norm.item()
