"""The squares are summed in float16, where 1e-8 squared is 0 and 1e4 squared is infinite.

hint: compute the norm in the gradients' own dtype or a wider one
price: the norm decides what is clipped, and by how much
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = sum(g.half().square().sum() for g in gradients).sqrt().float()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
