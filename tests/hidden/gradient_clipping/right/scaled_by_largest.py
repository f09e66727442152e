"""Computes the norm relative to the largest entry, so that nothing overflows."""

import torch


@torch.no_grad()
def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    found = list(filter(lambda p: p.grad is not None and p.grad.numel() > 0, parameters))
    if not found:
        return torch.tensor(0.0)
    peak = max(p.grad.abs().max().double().item() for p in found)
    if peak == 0.0:
        return torch.tensor(0.0)
    total = sum((p.grad.double() / peak).pow(2).sum() for p in found)
    norm = peak * total.sqrt()
    if norm <= max_l2_norm:
        return norm.float()
    factor = max_l2_norm / (norm.item() + eps)
    for p in found:
        torch.mul(p.grad, factor, out=p.grad)
    return norm.float()
