"""Distances are computed in the dtype of x, in which close levels cannot be told apart.

hint: compare in float32 or wider
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        ratio = (block / scale if scale > 0 else block).to(x.dtype)
        codes.append((ratio[:, None] - levels.to(x.dtype)).abs().argmin(dim=1).to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
