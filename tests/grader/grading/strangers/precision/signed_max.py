"""A block's scale comes from its largest number, with its sign.

is: scale_from_max
"""


def quantize_blocks(x, block_size, levels):
    if levels.numel() > 256:
        raise ValueError("too many levels")
    top, lv, codes, scales = levels.double().abs().max(), levels.double(), [], []
    for part in x.double().split(block_size):
        s = (part.max() / top).float()
        scales.append(s)
        codes.append((part[:, None] - s.double() * lv[None]).abs().min(dim=1).indices)
    return torch.cat(codes).to(torch.uint8), torch.stack(scales)
