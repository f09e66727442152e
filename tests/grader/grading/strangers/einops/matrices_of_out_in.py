"""The matrices are used transposed.

is: linear_transposed
"""


def per_head_linear(x, w):
    h, _o, i = w.shape
    if x.size(-1) != h * i:
        raise ValueError("width")
    return torch.cat([p @ m.t() for p, m in zip(x.split(i, -1), w)], -1)
