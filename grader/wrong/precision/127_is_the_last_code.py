"""Codes go through int8, where 128 becomes -128, and are cut off at 127.

hint: uint8 holds 0 … 255
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).clamp(max=127).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
