"""Places are counted in the dtype of the codes, which ends at 255.

hint: count places in int64
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    places = torch.ones_like(codes).cumsum(0, dtype=codes.dtype) - 1
    return scales[(places // block_size).long()] * levels.float()[codes.long()]
