"""Python floats are divided by the scale, which raises for a block of zeros.

hint: what is to be done with a block whose scale is 0?
"""


def quantize_blocks(x, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if not 1 <= len(levels) <= 256 or not levels.any():
        raise ValueError(f"levels must be 1 to 256 numbers, not all of them 0, got {len(levels)}")
    values, grid = x.tolist(), levels.tolist()
    codes, scales = [], []
    for start in range(0, len(values), block_size):
        block = values[start : start + block_size]
        scale = max(abs(v) for v in block) / max(abs(level) for level in grid)
        codes += [min(range(len(grid)), key=lambda i: abs(v / scale - grid[i])) for v in block]
        scales.append(scale)
    return torch.tensor(codes, dtype=torch.uint8), torch.tensor(scales, dtype=torch.float32)
