"""The backward pass adds the forward pass once more.

is: backward_as_forward
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    once = 2 * tokens * in_features * out_features
    return once + (once if backward else 0)
