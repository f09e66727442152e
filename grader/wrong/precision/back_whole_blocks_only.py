"""The codes are put into blocks of equal size, which a short last block does not fill.

hint: the last block may be short
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return (scales[:, None] * levels.float()[codes.long()].view(-1, block_size)).flatten()
