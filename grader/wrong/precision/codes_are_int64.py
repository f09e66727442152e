"""Codes are int64, eight times as large.

hint: a code is a uint8
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
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1))
    if not codes:
        return torch.zeros(0, dtype=torch.int64), torch.zeros(0)
    return torch.cat(codes), torch.stack(scales)
