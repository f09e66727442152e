"""x itself is divided by its scale.

hint: leave the input as it was
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    codes, scales = torch.zeros(len(x), dtype=torch.uint8), []
    for start in range(0, len(x), block_size):
        block = x[start : start + block_size]
        scale = block.abs().max().float() / levels.abs().max().float()
        if scale > 0:
            block /= scale
        codes[start : start + block_size] = (block.float()[:, None] - levels.float()).abs().argmin(dim=1)
        scales.append(scale)
    return codes, torch.stack(scales)
