"""Joins all entries into one vector, and computes the norm from its dot product with itself.

device: cpu
"""


@torch.no_grad()
def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if not max_l2_norm >= 0:
        raise ValueError(f"max_l2_norm = {max_l2_norm}")
    grads = tuple(p.grad for p in parameters if p.grad is not None)
    entries = torch.cat([torch.zeros(1), *(g.reshape(-1) for g in grads)])
    norm = torch.einsum("i,i->", entries, entries).sqrt()
    if norm.item() > max_l2_norm:
        for g in grads:
            g.copy_(g * (max_l2_norm / (norm + eps)))
    return norm
