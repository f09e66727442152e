"""With backward the forward pass is left out.

is: backward_alone
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    once = 2 * tokens * in_features * out_features
    if not backward:
        return once
    return sum([once] * (2 if input_grad else 1))
