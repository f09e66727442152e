"""mlp_flops counts the backward pass by default.

hint: the default is backward=False
"""


def mlp_flops(batch, dims, *, backward=True):
    if batch < 0:
        raise ValueError("batch must not be negative")
    if len(dims) < 2 or min(dims) < 0:
        raise ValueError("dims needs two sizes, none of them negative")
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
