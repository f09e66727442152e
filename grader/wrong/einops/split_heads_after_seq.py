"""The heads stay behind the sequence.

hint: the result is heads by seq by d
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    return rearrange(x, "... seq (heads d) -> ... seq heads d", heads=heads)
