"""Every layer costs three products, the first one as well.

is: first_input_gradient_counted
"""


def mlp_flops(batch, dims, *, backward=False):
    weights = sum(dims[i] * dims[i - 1] for i in range(1, len(dims)))
    return weights * batch * (6 if backward else 2)
