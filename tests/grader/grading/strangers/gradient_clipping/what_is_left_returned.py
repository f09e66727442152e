"""The norm that comes back is measured after the clipping.

is: norm_after_clipping
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)

    def length():
        return torch.stack([(g * g).sum() for g in grads]).sum().sqrt()

    before = length()
    if before > max_l2_norm:
        for g in grads:
            g.mul_(max_l2_norm / (before + eps))
    return length()
