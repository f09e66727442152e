"""Levels are divided by the largest one before they are used, as if scales were absmaxes.

hint: the scale was already divided by the largest |level|
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.repeat_interleave(block_size)[: len(codes)] * (levels / levels.abs().max()).float()[codes.long()]
