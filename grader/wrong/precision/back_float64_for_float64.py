"""float64 levels make a float64 result.

hint: the result is float32, whatever the levels are
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.repeat_interleave(block_size)[: len(codes)] * levels[codes.long()]
