"""Codes are rounded as if the levels were evenly spaced.

hint: levels may be spaced in any way: compare distances
"""


def quantize_blocks(x, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if not 1 <= len(levels) <= 256 or not levels.any():
        raise ValueError(f"levels must be 1 to 256 numbers, not all of them 0, got {len(levels)}")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size) if len(x) else []:
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        ratio = block / scale.double() if scale > 0 else block
        step = (levels[-1] - levels[0]) / max(len(levels) - 1, 1)
        place = torch.ceil((ratio - levels[0]) / step - 0.5) if step != 0 else torch.zeros_like(ratio)
        codes.append(place.clamp(0, len(levels) - 1).to(torch.uint8))
    if not codes:
        return torch.zeros(0, dtype=torch.uint8), torch.zeros(0)
    return torch.cat(codes), torch.stack(scales)
