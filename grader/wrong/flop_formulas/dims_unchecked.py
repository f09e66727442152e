"""mlp_flops checks nothing.

hint: one size is no layer, and no size is negative
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total
