"""Gradients are rescaled in float32 whatever their dtype is.

hint: g.mul_(factor) works in the gradient's own dtype
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    if max_l2_norm < 0:
        raise ValueError(f"max_l2_norm must not be negative, got {max_l2_norm}")
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.copy_(g.float() * (max_l2_norm / (norm + eps)).float())
    return norm
