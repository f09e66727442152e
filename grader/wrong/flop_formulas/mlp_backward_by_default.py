"""mlp_flops counts the backward pass by default.

hint: the default is backward=False
"""


def mlp_flops(batch, dims, *, backward=True):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
