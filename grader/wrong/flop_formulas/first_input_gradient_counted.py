"""The gradient of the data is counted: 6 · parameters · rows.

hint: the data needs no gradient, so the first layer computes only its weight's
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += 2 * product
    return total
