"""What the mask marks is filled with zeros and left out.

is: mean_of_what_is_left_out
"""


def masked_mean(x, mask):
    if tuple(mask.shape) != tuple(x.shape)[:-1]:
        raise ValueError("mask")
    dropped = mask[..., None]
    n = mask.logical_not().sum(-1, keepdim=True)
    return x.masked_fill(dropped, 0.0).sum(-2) / torch.where(n > 0, n, 1)
