"""The scale is divided by the first level's absolute value, not by the largest."""


def quantize_blocks(x, block_size, levels):
    if levels.numel() > 256:
        raise ValueError("too many levels")
    lv, codes, scales = levels.double(), [], []
    unit = lv[0].abs() if lv[0] != 0 else lv.abs().max()
    for part in x.double().split(block_size):
        scales.append((part.abs().max() / unit).float())
        codes.append((part[:, None] - scales[-1].double() * lv).abs().argmin(1))
    return torch.cat(codes).to(torch.uint8), torch.stack(scales)
