"""The backward pass is taken to cost as much as the forward pass.

hint: it makes two gradients, and each is a product
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return flops + 1 * flops
