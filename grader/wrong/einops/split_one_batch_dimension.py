"""Exactly one leading dimension is taken.

hint: `...` stands for any number of leading dimensions
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    return rearrange(x, "b seq (heads d) -> b heads seq d", heads=heads)
