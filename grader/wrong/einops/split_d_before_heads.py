"""The features are taken as (d heads): neighbouring features go to different heads.

hint: in (heads d) the axis that stands last steps fastest
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    return rearrange(x, "... seq (d heads) -> ... heads seq d", heads=heads)
