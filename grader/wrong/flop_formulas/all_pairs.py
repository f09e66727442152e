"""Every layer is taken to start at the first size.

hint: layer i takes dims[i] to dims[i + 1]
"""


def mlp_flops(batch, dims, *, backward=False):
    if batch < 0:
        raise ValueError("batch must not be negative")
    if len(dims) < 2 or min(dims) < 0:
        raise ValueError("dims needs two sizes, none of them negative")
    total = 0
    for layer, (i, o) in enumerate([(dims[0], o) for o in dims[1:]]):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
