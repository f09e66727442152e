"""The nearest level that is not above x is taken.

hint: nearest, not next below
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
        distance = block[:, None] - scale.double() * levels
        distance = torch.where(distance < 0, distance - 1e300, distance).abs()
        codes.append(distance.argmin(dim=1).to(torch.uint8))
    if not codes:
        return torch.zeros(0, dtype=torch.uint8), torch.zeros(0)
    return torch.cat(codes), torch.stack(scales)
