"""The result is merged as (d_out heads).

hint: in (heads d_out) the axis that stands last steps fastest
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    return torch.einsum("...hi,hio->...oh", x.unflatten(-1, (heads, d_in)), w).flatten(-2)
