"""A block of zeros has scale 1.

hint: the scale of zeros is 0: with levels that lack 0 nothing else gives zeros back
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scale = torch.where(scale == 0, 1.0, scale)
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
