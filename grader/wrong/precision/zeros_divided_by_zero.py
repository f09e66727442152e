"""Python floats are divided by the scale, which raises for a block of zeros.

hint: what is to be done with a block whose scale is 0?
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    values, grid = x.tolist(), levels.tolist()
    codes, scales = [], []
    for start in range(0, len(values), block_size):
        block = values[start : start + block_size]
        scale = max(abs(v) for v in block) / max(abs(level) for level in grid)
        codes += [min(range(len(grid)), key=lambda i: abs(v / scale - grid[i])) for v in block]
        scales.append(scale)
    return torch.tensor(codes, dtype=torch.uint8), torch.tensor(scales, dtype=torch.float32)
