"""The features of the heads alternate in the merged vector.

is: merge_d_before_heads
"""


def merge_heads(x):
    return torch.stack(x.unbind(dim=-3), dim=-1).flatten(start_dim=-2)
