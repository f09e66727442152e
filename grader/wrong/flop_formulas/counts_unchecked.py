"""linear_flops takes negative counts.

hint: -3 · -4 is positive, and no layer has such a shape
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return flops + (2 if input_grad else 1) * flops
