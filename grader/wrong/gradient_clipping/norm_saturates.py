"""The norm is never above 1000.

hint: a norm has no largest value, and long gradients are what is clipped
price: the norm decides what is clipped, and by how much
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm().clamp(max=1000)
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
