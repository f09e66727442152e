"""The heads are summed over as well.

hint: an axis that is not named after the arrow is summed over
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    return torch.einsum("...hi,hio->...o", x.unflatten(-1, (heads, d_in)), w)
