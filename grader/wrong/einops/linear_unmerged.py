"""The heads stay a dimension of their own.

hint: (heads d_out) is one dimension
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    return torch.einsum("...hi,hio->...ho", x.unflatten(-1, (heads, d_in)), w)
