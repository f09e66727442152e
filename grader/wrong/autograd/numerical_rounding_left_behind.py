"""The steps are added to the input and taken away again, which leaves rounding errors in it.

hint: x + eps - 2·eps + eps is not x; keep the value
"""

import itertools


def numerical_gradient(f, inputs, eps=1e-6):
    gradients = []
    with torch.no_grad():
        for x in inputs:
            gradient = torch.zeros_like(x)
            for index in itertools.product(*map(range, x.shape)):
                x[index] += eps
                above = f(*inputs)
                x[index] -= 2 * eps
                below = f(*inputs)
                x[index] += eps
                gradient[index] = (above - below) / (2 * eps)
            gradients.append(gradient)
    return tuple(gradients)
