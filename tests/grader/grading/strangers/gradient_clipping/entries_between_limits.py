"""The entries are limited to ±max_l2_norm one by one.

is: clips_entries
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    norm = torch.linalg.vector_norm(torch.cat([torch.zeros(1), *(g.flatten() for g in grads)]))
    if norm > max_l2_norm:
        for g in grads:
            g.clamp_(-max_l2_norm, max_l2_norm)
    return norm
