"""The heads come after the positions.

is: split_heads_after_seq
"""


def split_heads(x, heads):
    if x.size(-1) % heads:
        raise ValueError("heads does not divide the features")
    return torch.stack(x.chunk(heads, dim=-1), dim=-2)
