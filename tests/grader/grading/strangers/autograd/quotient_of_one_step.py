"""The difference over both steps is divided by one.

is: numerical_divided_by_eps
"""


def numerical_gradient(f, inputs, eps=1e-6):
    if eps <= 0:
        raise ValueError(eps)
    result = []
    for which, x in enumerate(inputs):
        g = torch.empty(x.shape, dtype=x.dtype)
        for place in (
            torch.cartesian_prod(*(torch.arange(n) for n in x.shape))
            .reshape(x.numel(), -1)
            .tolist()
        ):
            ends = []
            for sign in (1, -1):
                args = [t.detach().clone() for t in inputs]
                args[which][tuple(place)] += sign * eps
                ends.append(f(*args).item())
            g[tuple(place)] = (ends[0] - ends[1]) / eps
        result.append(g)
    return tuple(result)
