"""The values of f are taken in float32.

hint: float32 leaves 7 digits, and the difference fewer: keep the values as f gives them
"""


def numerical_gradient(f, inputs, eps=1e-6):
    points = [x.detach().clone(memory_format=torch.contiguous_format) for x in inputs]
    gradients = []
    for point in points:
        elements, slopes = point.view(-1), []
        for i, value in enumerate(elements.tolist()):
            elements[i] = value + eps
            above = f(*points).float().item()
            elements[i] = value - eps
            below = f(*points).float().item()
            elements[i] = value
            slopes.append((above - below) / (2 * eps))
        gradients.append(point.new_tensor(slopes).view(point.shape))
    return tuple(gradients)
