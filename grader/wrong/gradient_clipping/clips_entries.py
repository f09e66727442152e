"""Each entry is cut off at max_l2_norm.

hint: all entries are multiplied by one factor, so that the direction stays
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.clamp_(-max_l2_norm, max_l2_norm)
    return norm
