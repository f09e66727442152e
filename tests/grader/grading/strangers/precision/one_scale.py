"""One scale is computed of the whole vector.

is: scale_of_the_whole_vector
"""


def quantize_blocks(x, block_size, levels):
    if levels.numel() > 256:
        raise ValueError("too many levels")
    lv, v = levels.double(), x.double()
    scale = (v.abs().max() / lv.abs().max()).float()
    codes = torch.cdist(v[:, None], (scale.double() * lv)[:, None], p=1).argmin(1)
    return codes.byte(), scale.repeat(-(-len(x) // block_size))
