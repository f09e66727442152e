"""Joins all gradients into one float64 vector, scales it and copies its parts back."""

import math

import torch


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    owners = [p for p in parameters if p.grad is not None]
    vector = torch.cat(
        [torch.zeros(1, dtype=torch.float64)]
        + [p.grad.detach().reshape(-1).to(torch.float64) for p in owners]
    )
    norm = math.sqrt(torch.dot(vector, vector))
    if norm > max_l2_norm:
        vector = vector * max_l2_norm / (norm + eps)
        parts = vector[1:].split([p.grad.numel() for p in owners])
        for p, part in zip(owners, parts):
            p.grad.detach().copy_(part.view(p.grad.shape))
    return torch.scalar_tensor(norm, dtype=torch.float32)
