"""Autograd differentiates f.

hint: without autograd: call f twice for each element
"""


def recorded(f, points):
    with torch.enable_grad():
        value = f(*points)
    return torch.autograd.grad(value, points, allow_unused=True, materialize_grads=True)


def numerical_gradient(f, inputs, eps=1e-6):
    if not eps > 0:
        raise ValueError(f"eps must be above 0, got {eps}")
    return tuple(recorded(f, [x.detach().clone().requires_grad_() for x in inputs]))
