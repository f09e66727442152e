"""Levels are divided by the scale.

hint: x = scale · level
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return levels.float()[codes.long()] / scales.repeat_interleave(block_size)[: len(codes)]
