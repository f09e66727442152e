"""The view has the features before the heads.

is: split_d_before_heads
"""


def split_heads(x, heads):
    if x.size(-1) % heads:
        raise ValueError("heads does not divide the features")
    return torch.stack([x[..., h::heads] for h in range(heads)], dim=-3)
