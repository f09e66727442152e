"""Detached copies are rescaled and thrown away.

hint: p.grad.mul_(...) changes the tensor that is there
price: no gradient is ever clipped
most: 1.5
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g = g * (max_l2_norm / (norm + eps))
    return norm
