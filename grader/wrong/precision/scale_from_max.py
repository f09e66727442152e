"""The scale comes from the largest number of the block, not the largest absolute value.

hint: the largest |x| may belong to a negative number
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.max() / levels.abs().max()).float()
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
