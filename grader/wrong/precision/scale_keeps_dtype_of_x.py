"""Scales have the dtype of x.

hint: scales are float32 for every x
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        codes.append((block[:, None] - scale.double() * levels).abs().argmin(dim=1).to(torch.uint8))
    if not codes:
        return torch.zeros(0, dtype=torch.uint8), torch.zeros(0, dtype=x.dtype)
    return torch.cat(codes), torch.stack(scales).to(x.dtype)
