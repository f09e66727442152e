"""The list of scales is repeated as a whole, instead of each scale.

hint: repeat_interleave repeats each entry, repeat the whole
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.repeat(block_size)[: len(codes)] * levels.float()[codes.long()]
