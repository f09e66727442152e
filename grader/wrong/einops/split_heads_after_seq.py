"""The heads stay behind the sequence.

hint: the result is heads by seq by d
"""


def split_heads(x, heads):
    if heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"heads must be at least 1 and divide {x.shape[-1]} features, got {heads}")
    return rearrange(x, "... seq (heads d) -> ... seq heads d", heads=heads)
