"""Codes are found by a search that needs sorted levels.

hint: levels come in any order
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
        found = torch.bucketize(ratio, (levels[1:] + levels[:-1]) / 2)
        codes.append(found.to(torch.uint8))
    if not codes:
        return torch.zeros(0, dtype=torch.uint8), torch.zeros(0)
    return torch.cat(codes), torch.stack(scales)
