"""linear_flops refuses counts of 0.

hint: 0 tokens are a right call with 0 FLOPs
"""


def linear_flops(tokens, in_features, out_features, *, backward=False, input_grad=True):
    for name, count in [("tokens", tokens), ("in_features", in_features), ("out_features", out_features)]:
        if count <= 0:
            raise ValueError(f"{name} must not be negative")
    flops = 2 * tokens * in_features * out_features
    if not backward:
        return flops
    return flops + (2 if input_grad else 1) * flops
