"""No layer's input gradient is counted.

hint: a layer's input gradient is what the layer before it needs
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product
    return total
