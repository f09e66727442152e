"""backward=True gives the backward pass without the forward pass.

hint: backward=True adds to the forward pass
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return (2 if input_grad else 1) * flops
