"""An element keeps its step while the others take theirs.

hint: all the others as they are
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
            slopes[i] = (above - below) / (2 * eps)
    return tuple(gradients)
