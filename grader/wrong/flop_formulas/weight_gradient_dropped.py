"""input_grad=False leaves out the gradient of the weight instead of nothing but the input's.

hint: the weight's gradient is always computed
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return flops + (2 if input_grad else 0) * flops
