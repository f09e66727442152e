"""Of two levels that are equally near the smaller level is taken, whatever its index.

hint: the lower index, not the lower level
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        order = levels.sort(stable=True).indices
        nearest = (block[:, None] - scale.double() * levels[order]).abs().argmin(dim=1)
        codes.append(order[nearest].to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
