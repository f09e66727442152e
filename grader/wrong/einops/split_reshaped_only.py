"""The shape is right but the elements are in the old order: a reshape where two axes have to change places.

hint: reshape keeps the order in memory; it never moves an axis past another one
"""


def split_heads(x, heads):
    if x.shape[-1] % heads:
        raise ValueError(f"heads must divide {x.shape[-1]} features, got {heads}")
    return x.reshape(*x.shape[:-2], heads, x.shape[-2], -1)
