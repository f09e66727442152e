"""Adds up the squares in one loop, and rescales in a second loop."""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if max_l2_norm < 0:
        raise ValueError("max_l2_norm has to be at least 0")
    params = [p for p in parameters if p.grad is not None]
    total = torch.tensor(0.0)
    for p in params:
        total = total + (p.grad.data.double() ** 2).sum()
    norm = total**0.5
    if norm > max_l2_norm:
        clip_coef = max_l2_norm / (norm + eps)
        for p in params:
            p.grad.data *= clip_coef
    return norm
