"""Multiplies every gradient, by exactly 1 where the norm is not above the limit."""

import torch


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError("max_l2_norm must be at least 0")
    grads = tuple(p.grad.detach() for p in parameters if p.grad is not None)
    if len(grads) == 0:
        return torch.tensor(0.0)
    norm = sum(torch.sum(g.float() ** 2) for g in grads) ** 0.5
    factor = torch.where(norm > max_l2_norm, max_l2_norm / (norm + eps), torch.ones_like(norm))
    for g in grads:
        g.copy_(g * factor)
    return norm
