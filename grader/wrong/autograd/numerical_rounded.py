"""The slopes are rounded to 6 decimals.

hint: a gradient may be as small as 1e-8 and as large as 1e4: change no number on the way
"""


def numerical_gradient(f, inputs, eps=1e-6):
    points = [x.detach().clone(memory_format=torch.contiguous_format) for x in inputs]
    gradients = []
    for point in points:
        elements, slopes = point.view(-1), []
        for i, value in enumerate(elements.tolist()):
            elements[i] = value + eps
            above = f(*points).item()
            elements[i] = value - eps
            below = f(*points).item()
            elements[i] = value
            slopes.append(round((above - below) / (2 * eps), 6))
        gradients.append(point.new_tensor(slopes).view(point.shape))
    return tuple(gradients)
