"""p.grad becomes a new tensor.

hint: p.grad.mul_(...) changes the tensor that is there
"""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-06):
    parameters = [p for p in parameters if p.grad is not None]
    gradients = [p.grad for p in parameters]
    if not gradients:
        return torch.zeros(())
    norm = torch.stack([g.norm() for g in gradients]).norm()
    if norm > max_l2_norm:
        for p in parameters:
            p.grad = p.grad * (max_l2_norm / (norm + eps))
    return norm
