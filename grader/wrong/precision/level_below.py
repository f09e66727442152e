"""The nearest level that is not above x is taken.

hint: nearest, not next below
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        distance = block[:, None] - scale.double() * levels
        distance = torch.where(distance < 0, distance - 1e300, distance).abs()
        codes.append(distance.argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
