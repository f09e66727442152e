"""The value above is subtracted from the one below."""


def numerical_gradient(f, inputs, eps=1e-6):
    if eps <= 0:
        raise ValueError(eps)
    result = []
    for which, x in enumerate(inputs):
        slopes = []
        for place in range(x.numel()):
            ends = []
            for step in (eps, -eps):
                args = [t.detach().clone(memory_format=torch.contiguous_format) for t in inputs]
                args[which].view(-1)[place] += step
                ends.append(f(*args).item())
            slopes.append((ends[1] - ends[0]) / (2 * eps))
        result.append(torch.tensor(slopes, dtype=x.dtype).reshape(x.shape))
    return tuple(result)
