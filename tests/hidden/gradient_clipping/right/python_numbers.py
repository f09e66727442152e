"""The sums and the factor are Python floats, in float64."""

import math


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError(f"max_l2_norm must be >= 0, not {max_l2_norm}")
    gradients = [g for g in (p.grad for p in parameters) if g is not None]
    norm = math.sqrt(sum(g.double().square().sum().item() for g in gradients))
    if norm > max_l2_norm:
        factor = max_l2_norm / (norm + eps)
        for g in gradients:
            g.mul_(factor)
    return torch.tensor(norm, dtype=torch.float64)
