"""The mean of the squares is taken instead of their sum.

hint: √(Σ g²)
price: the norm decides what is clipped, and by how much
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.cat([g.flatten() for g in gradients]).square().mean().sqrt()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
