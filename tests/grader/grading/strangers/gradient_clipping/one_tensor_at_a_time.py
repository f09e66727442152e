"""Each gradient is compared with the limit, and shortened, on its own.

is: each_by_its_own_norm
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    total = torch.tensor(0.0)
    for p in parameters:
        if p.grad is None:
            continue
        own = p.grad.pow(2).sum().sqrt()
        total = total + own**2
        if own > max_l2_norm:
            p.grad *= max_l2_norm / (own + eps)
    return total.sqrt()
