"""No layer's input gradient is counted.

hint: a layer's input gradient is what the layer before it needs
"""


def mlp_flops(batch, dims, *, backward=False):
    if batch < 0:
        raise ValueError("batch must not be negative")
    if len(dims) < 2 or min(dims) < 0:
        raise ValueError("dims needs two sizes, none of them negative")
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product
    return total
