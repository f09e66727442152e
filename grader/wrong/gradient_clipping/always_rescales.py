"""Gradients are rescaled to max_l2_norm even if they are shorter.

hint: only where the norm is above the limit
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > 0:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
