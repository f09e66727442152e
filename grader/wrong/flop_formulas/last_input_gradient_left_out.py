"""The last layer, not the first, goes without its input's gradient.

hint: which layer's input is the data?
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == len(dims) - 2 else 2 * product
    return total
