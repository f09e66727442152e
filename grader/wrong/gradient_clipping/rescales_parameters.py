"""The parameters are rescaled, not their gradients.

hint: only gradients change
price: no gradient is ever clipped
most: 1.5
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    parameters = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in parameters]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for p in parameters:
            p.data.mul_(max_l2_norm / (norm + eps))
    return norm
