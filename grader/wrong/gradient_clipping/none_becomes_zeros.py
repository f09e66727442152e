"""Parameters without a gradient get one of zeros.

hint: skip them; None stays None
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    parameters = list(parameters)
    for p in parameters:
        if p.grad is None:
            p.grad = torch.zeros_like(p)
    gradients = [p.grad for p in parameters]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
