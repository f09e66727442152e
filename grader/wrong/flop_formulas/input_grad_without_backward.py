"""input_grad counts without backward as well.

hint: without backward there is no gradient to compute
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    return flops * (1 + backward + input_grad)
