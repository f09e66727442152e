"""x itself is divided by its scale.

hint: leave the input as it was
"""


def quantize_blocks(x, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if not 1 <= len(levels) <= 256 or not levels.any():
        raise ValueError(f"levels must be 1 to 256 numbers, not all of them 0, got {len(levels)}")
    codes, scales = torch.zeros(len(x), dtype=torch.uint8), []
    for start in range(0, len(x), block_size):
        block = x[start : start + block_size]
        scale = block.abs().max().float() / levels.abs().max().float()
        if scale > 0:
            block /= scale
        codes[start : start + block_size] = (block.float()[:, None] - levels.float()).abs().argmin(dim=1)
        scales.append(scale)
    return codes, torch.stack(scales) if scales else torch.zeros(0)
