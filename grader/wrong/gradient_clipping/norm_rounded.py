"""The norm is rounded to 6 decimals.

hint: gradients of 1e-8 have a norm as well
price: the norm decides what is clipped, and by how much
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm().round(decimals=6)
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
