"""Codes are rounded as if the levels were evenly spaced.

hint: levels may be spaced in any way: compare distances
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        ratio = block / scale.double() if scale > 0 else block
        step = (levels[-1] - levels[0]) / max(len(levels) - 1, 1)
        place = torch.ceil((ratio - levels[0]) / step - 0.5) if step != 0 else torch.zeros_like(ratio)
        codes.append(place.clamp(0, len(levels) - 1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
