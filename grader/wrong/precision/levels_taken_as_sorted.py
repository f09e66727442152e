"""Codes are found by a search that needs sorted levels.

hint: levels come in any order
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    levels = levels.double()
    codes, scales = [], []
    for block in x.double().split(block_size):
        scale = (block.abs().max() / levels.abs().max()).float()
        scales.append(scale)
        ratio = block / scale.double() if scale > 0 else block
        found = torch.bucketize(ratio, (levels[1:] + levels[:-1]) / 2)
        codes.append(found.to(torch.uint8))
    return torch.cat(codes), torch.stack(scales)
