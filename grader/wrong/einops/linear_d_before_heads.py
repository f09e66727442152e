"""The features are taken as (d_in heads).

hint: in (heads d_in) the axis that stands last steps fastest
"""


def per_head_linear(x, w):
    heads, d_in, d_out = w.shape
    if x.shape[-1] != heads * d_in:
        raise ValueError(f"x has {x.shape[-1]} features, not {heads} · {d_in}")
    by_head = rearrange(x, "... (i heads) -> ... heads i", heads=heads)
    return rearrange(einsum(by_head, w, "... heads i, heads i o -> ... heads o"), "... heads o -> ... (heads o)")
