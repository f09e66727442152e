"""The parameters are gone through twice, for the norm and for the factor.

hint: a generator is used up after the first time
price: model.parameters() is a generator, so no gradient is ever clipped
most: 1.5
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for p in parameters:
            if p.grad is not None:
                p.grad.mul_(max_l2_norm / (norm + eps))
    return norm
