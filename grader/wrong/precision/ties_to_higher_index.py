"""Of two levels that are equally near the one with the higher index is taken.

hint: argmin takes the first; a search from the right takes the last
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        backwards = (block[:, None] - scale.double() * levels).abs().flip(1)
        codes.append((len(levels) - 1 - backwards.argmin(dim=1)).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
