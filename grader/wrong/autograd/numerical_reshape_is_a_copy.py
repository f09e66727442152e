"""Elements are changed through reshape(-1), which is a copy where an input is not contiguous.

hint: who sees a change of a copy? make each point contiguous first
"""


def numerical_gradient(f, inputs, eps=1e-6):
    points = [x.detach().clone() for x in inputs]
    gradients = [torch.zeros(p.shape, dtype=p.dtype) for p in points]
    for point, gradient in zip(points, gradients):
        flat, slopes = point.reshape(-1), gradient.view(-1)
        for i in range(flat.numel()):
            value = flat[i].item()
            flat[i] = value + eps
            above = f(*points).item()
            flat[i] = value - eps
            below = f(*points).item()
            flat[i] = value
            slopes[i] = (above - below) / (2 * eps)
    return tuple(gradients)
