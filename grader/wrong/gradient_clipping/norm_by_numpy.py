"""The norm is computed by numpy, which knows no GPU.

hint: torch's own functions work where the gradients are
device: cuda
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not gradients:
        return torch.zeros(())
    norm = torch.tensor(sum(float((g.numpy() ** 2).sum()) for g in gradients) ** 0.5, dtype=gradients[0].dtype)
    if norm > max_l2_norm:
        for g in gradients:
            g.mul_(max_l2_norm / (norm + eps))
    return norm
