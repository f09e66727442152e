"""The count of an mlp is a float.

hint: / makes a float, which is exact up to 2**53 only; // keeps an integer
"""


def mlp_flops(batch, dims, *, backward=False):
    total = 0
    for layer, (i, o) in enumerate(itertools.pairwise(dims)):
        product = 2 * batch * i * o
        total += product
        if backward:
            total += product if layer == 0 else 2 * product
    return total / 1
