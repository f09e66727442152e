"""The norm of the parameters is taken, not of their gradients.

hint: √(Σ g²), of gradients
price: the norm decides what is clipped, and by how much
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    parameters = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in parameters]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([p.detach().norm() for p in parameters]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
