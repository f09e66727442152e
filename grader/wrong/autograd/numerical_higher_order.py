"""A formula with four points is used, which cancels the term that eps leaves.

hint: central differences have two points
"""


def numerical_gradient(f, inputs, eps=1e-6):
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
            flat[i] = value + 2 * eps
            far_above = f(*points).item()
            flat[i] = value - 2 * eps
            far_below = f(*points).item()
            flat[i] = value
            slopes[i] = (8 * (above - below) - (far_above - far_below)) / (12 * eps)
    return tuple(gradients)
