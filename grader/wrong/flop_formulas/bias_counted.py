"""A bias that the layer does not have is added.

hint: the layer has no bias
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features + tokens * out_features
    if not backward:
        return flops
    return flops + (2 if input_grad else 1) * flops
