"""The first parameter without a gradient ends the search.

hint: go on with the next parameter
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = []
    for p in parameters:
        if p.grad is None:
            break
        gradients.append(p.grad)
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
