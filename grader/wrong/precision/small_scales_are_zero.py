"""A scale below 1e-6 is taken for 0.

hint: gradients are often smaller than that: only a block of zeros has scale 0
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scale = scale if scale >= 1e-6 else torch.zeros(())
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
