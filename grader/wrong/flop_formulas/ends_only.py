"""Only the first and the last size are used.

hint: a stack has a layer for each pair of neighbours in dims
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate([(dims[0], dims[-1])]):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
