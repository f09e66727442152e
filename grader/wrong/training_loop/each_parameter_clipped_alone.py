"""Every parameter's gradient is clipped by its own norm.

hint: all gradients share one norm and one factor
"""


def _clip(optimizer, max_norm):
    parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters))
    for p in parameters:
        nn.utils.clip_grad_norm_([p], math.inf if max_norm is None else max_norm)
    return norm
