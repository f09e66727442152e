"""mlp_flops halves and doubles through a float.

hint: / makes a float, exact to 2**53 only; // stays an integer
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
            total += product if layer == 0 else 2 * product
    return int(total / 2) * 2
