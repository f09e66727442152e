"""Computes each norm in its gradient's dtype; at or below the limit, the factor is 1."""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError("negative max_l2_norm")
    gradients = [p.grad.detach() for p in parameters if p.grad is not None]
    norm = sum((g.norm().double() ** 2 for g in gradients), start=torch.zeros(())).sqrt()
    factor = torch.where(norm > max_l2_norm, max_l2_norm / (norm + eps), torch.ones_like(norm))
    if factor != 1:
        for g in gradients:
            g *= factor
    return norm
