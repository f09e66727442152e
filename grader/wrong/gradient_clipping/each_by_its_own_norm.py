"""Each gradient is clipped by its own norm.

hint: one norm and one factor for all gradients together
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    for g in gradients:
        if g.norm() > max_l2_norm:
            g.mul_(max_l2_norm / (g.norm() + eps))
    return norm
