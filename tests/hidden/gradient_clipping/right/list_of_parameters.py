"""Puts the parameters into a list first, and loops over that list twice."""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    parameters = list(parameters)
    squares = [p.grad.detach().double().pow(2).sum() for p in parameters if p.grad is not None]
    norm = torch.sqrt(sum(squares)) if squares else torch.tensor(0.0)
    if norm <= max_l2_norm:
        return norm
    for p in parameters:
        if p.grad is not None:
            p.grad.detach().mul_(max_l2_norm / (norm + eps))
    return norm
