"""Sorts the distinct levels and searches among their midpoints."""


def quantize_blocks(x, block_size, levels):
    first_index = {}
    for i, level in enumerate(levels.tolist()):
        first_index.setdefault(level, i)
    ordered = sorted(first_index)
    index = torch.tensor([first_index[level] for level in ordered])
    grid = torch.tensor(ordered, dtype=torch.float64)
    middle = (grid[1:] + grid[:-1]) / 2
    codes, scales = [], []
    for block in torch.split(x.to(torch.float64), block_size):
        scale = block.abs().max() / grid.abs().max()
        scales.append(scale.item())
        ratio = block / scale if scale > 0 else torch.zeros_like(block)
        low = index[torch.bucketize(ratio, middle)]
        high = index[torch.bucketize(ratio, middle, right=True)]
        codes.append(torch.minimum(low, high).to(torch.uint8))
    return torch.cat(codes), torch.tensor(scales, dtype=torch.float32)


def dequantize_blocks(codes, scales, block_size, levels):
    blocks = codes.split(block_size)
    parts = [
        scale * levels.index_select(0, block.int()).float() for scale, block in zip(scales, blocks)
    ]
    return torch.cat(parts)
