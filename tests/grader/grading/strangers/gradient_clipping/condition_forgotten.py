"""There is no comparison: short gradients grow to the limit.

is: always_rescales
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    norm = torch.sqrt(sum(torch.sum(g**2) for g in grads))
    for g in grads:
        g.copy_(g / (norm + eps) * max_l2_norm)
    return norm
