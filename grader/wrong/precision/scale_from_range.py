"""The scale spreads the range from min to max over that of the levels.

hint: absmax over absmax: 0 has to stay 0
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = ((block.max() - block.min()) / (levels.max() - levels.min()).clamp(min=1e-30)).float()
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
