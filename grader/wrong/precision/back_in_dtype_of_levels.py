"""The result has the dtype that levels and scales have together.

hint: the result is float32, whatever the levels are
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    each = scales.repeat_interleave(block_size)[: len(codes)]
    return levels[codes.long()] * each.to(levels.dtype)
