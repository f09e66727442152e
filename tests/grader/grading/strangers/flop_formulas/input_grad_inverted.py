"""input_grad means that the gradient of the input is not needed."""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = [tokens * in_features * out_features * 2]
    if backward:
        flops += flops * (1 if input_grad else 2)
    return sum(flops)
