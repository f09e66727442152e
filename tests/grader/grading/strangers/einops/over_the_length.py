"""The kept positions are summed and divided by how many there are in all.

is: mean_over_all_positions
"""


def masked_mean(x, mask):
    if tuple(mask.shape) != tuple(x.shape)[:-1]:
        raise ValueError("mask")
    return x.masked_fill(~mask.unsqueeze(-1), 0.0).mean(dim=-2)
