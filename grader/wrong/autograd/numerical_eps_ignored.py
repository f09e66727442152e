"""The step is 1e-6, whatever eps is.

hint: eps is an argument
"""


def numerical_gradient(f, inputs, eps=1e-6):
    points = [x.detach().clone(memory_format=torch.contiguous_format) for x in inputs]
    gradients = [torch.zeros_like(p) for p in points]
    h = 1e-6
    for point, gradient in zip(points, gradients):
        flat, slopes = point.view(-1), gradient.view(-1)
        for i in range(flat.numel()):
            value = flat[i].item()
            flat[i] = value + h
            above = f(*points).item()
            flat[i] = value - h
            below = f(*points).item()
            flat[i] = value
            slopes[i] = (above - below) / (2 * h)
    return tuple(gradients)
