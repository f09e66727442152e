"""The factor is a Python number computed before it is known to be needed, so zeros divide by zero where ε is 0.

hint: is something divided by 0?
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    if max_l2_norm < 0:
        raise ValueError(f"max_l2_norm must not be negative, got {max_l2_norm}")
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = max_l2_norm / (norm.item() + eps)
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(factor)
    return norm
