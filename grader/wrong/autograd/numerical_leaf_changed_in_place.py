"""Inputs are changed in place while autograd is on, which it refuses for leaves that require a gradient.

hint: detach, or torch.no_grad()
"""

import itertools


def numerical_gradient(f, inputs, eps=1e-6):
    points = [x if x.requires_grad else x.clone() for x in inputs]
    gradients = []
    for x in points:
        gradient = torch.zeros_like(x)
        for index in itertools.product(*map(range, x.shape)):
            value = x[index].item()
            x[index] = value + eps
            above = f(*points)
            x[index] = value - eps
            below = f(*points)
            x[index] = value
            gradient[index] = (above - below) / (2 * eps)
        gradients.append(gradient)
    return tuple(gradients)
