"""A small number is added to the scale before x is divided by it.

hint: with tiny numbers it is not small: what is done where the scale is 0, and only there?
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        ratio = block / (scale.double() + 1e-12)
        codes.append((ratio[:, None] - levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
