"""The gradients are multiplied by the square of the factor."""


def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    grads = [p.grad for p in parameters if p.grad is not None]
    square = sum((g.float().square().sum() for g in grads), torch.tensor(0.0))
    if square > max_l2_norm**2:
        for g in grads:
            g.mul_((max_l2_norm / (square.sqrt() + eps)) ** 2)
    return square.sqrt()
