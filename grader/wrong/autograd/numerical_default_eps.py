"""The step is 1e-3 where none is given.

hint: the default is part of the signature
"""


def numerical_gradient(f, inputs, eps=1e-3):
    points = [x.detach().clone(memory_format=torch.contiguous_format) for x in inputs]
    gradients = [torch.zeros_like(p) for p in points]
    for point, gradient in zip(points, gradients):
        flat, slopes = point.view(-1), gradient.view(-1)
        for i in range(flat.numel()):
            value = flat[i].item()
            flat[i] = value + eps
            above = f(*points).item()
            flat[i] = value - eps
            below = f(*points).item()
            flat[i] = value
            slopes[i] = (above - below) / (2 * eps)
    return tuple(gradients)
