"""The scale comes from the mean of the block's absolute values."""


def quantize_blocks(x, block_size, levels):
    if levels.numel() > 256:
        raise ValueError("too many levels")
    lv, codes, scales = levels.double(), [], []
    for start in range(0, len(x), block_size):
        part = x[start : start + block_size].double()
        scales.append((part.abs().mean() / lv.abs().max()).float())
        codes.append((part[:, None] - scales[-1].double() * lv).abs().argmin(1))
    return torch.cat(codes).to(torch.uint8), torch.stack(scales)
