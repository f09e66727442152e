"""A vector without codes is put into blocks one by one, and there is none to join.

hint: 0 codes make 0 numbers
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    blocks = [s * levels.float()[c.long()] for s, c in zip(scales, codes.split(block_size))]
    return torch.cat(blocks)
