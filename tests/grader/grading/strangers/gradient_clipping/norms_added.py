"""The whole norm is the sum of the single norms.

is: sum_of_norms
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    norm = sum(torch.linalg.vector_norm(g) for g in grads)
    if norm > max_l2_norm:
        torch._foreach_mul_(grads, (max_l2_norm / (norm + eps)).item())
    return norm
