"""Clamps the factor at 1, as torch does, and multiplies every gradient by it."""


@torch.no_grad()
def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.tensor(0.0)
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    factor = torch.clamp(max_l2_norm / (norm + eps), max=1.0)
    for g in gradients:
        g.mul_(factor)
    return norm
