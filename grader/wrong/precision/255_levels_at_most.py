"""256 levels are refused.

hint: uint8 holds 0 … 255, which are 256 codes
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 255:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 ends at 255")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
