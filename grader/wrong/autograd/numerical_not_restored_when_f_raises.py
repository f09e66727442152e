"""The inputs are changed in place, and stay changed where f raises.

hint: work on copies, or restore in finally
"""

import itertools


def numerical_gradient(f, inputs, eps=1e-6):
    if eps <= 0:
        raise ValueError(f"eps must be above 0, got {eps}")
    gradients = []
    with torch.no_grad():
        for x in inputs:
            gradient = torch.zeros_like(x)
            for index in itertools.product(*map(range, x.shape)):
                value = x[index].item()
                x[index] = value + eps
                above = f(*inputs)
                x[index] = value - eps
                below = f(*inputs)
                x[index] = value
                gradient[index] = (above - below) / (2 * eps)
            gradients.append(gradient)
    return tuple(gradients)
