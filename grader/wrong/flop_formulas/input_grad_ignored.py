"""The gradient of the input is always counted.

hint: input_grad=False leaves one product of the backward pass out
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return flops + 2 * flops
