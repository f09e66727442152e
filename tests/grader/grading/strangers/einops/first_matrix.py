"""The first matrix serves all heads.

is: linear_same_matrix_for_all
"""


def per_head_linear(x, w):
    h, i, _ = w.shape
    if x.size(-1) != h * i:
        raise ValueError("width")
    return (x.unflatten(-1, (h, i)) @ w[0]).flatten(-2)
