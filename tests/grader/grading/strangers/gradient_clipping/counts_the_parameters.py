"""The parameters are counted before anything else, which leaves nothing of a generator.

is: generator_counted
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    if sum(1 for _ in parameters) == 0:
        return torch.zeros(())
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (float(norm) + eps))
    return norm
