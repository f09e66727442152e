"""Axes are counted from the front, which is right for one leading dimension.

hint: count axes from the end: -3 and -2
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)
