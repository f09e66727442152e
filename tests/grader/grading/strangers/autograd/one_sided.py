"""The slope is that from the point to the one above.

is: numerical_forward_differences
"""


def numerical_gradient(f, inputs, eps=1e-6):
    if eps <= 0:
        raise ValueError(eps)
    fresh = [t.detach().clone(memory_format=torch.contiguous_format) for t in inputs]
    here = float(f(*fresh))
    result = []
    for which, x in enumerate(inputs):
        slopes = []
        for place in range(x.numel()):
            args = [t.clone() for t in fresh]
            args[which].view(-1)[place] += eps
            slopes.append((float(f(*args)) - here) / eps)
        result.append(torch.tensor(slopes, dtype=x.dtype).reshape(x.shape))
    return tuple(result)
