"""A block_size below 1 is left to whatever Python says about it.

hint: block_size below 1 is a ValueError that names it
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.repeat_interleave(block_size)[: len(codes)] * levels.float()[codes.long()]
