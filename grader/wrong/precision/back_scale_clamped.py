"""Scales have a lower bound here, so that a scale of 0 gives small numbers and not zeros.

hint: 0 times any level is 0
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.clamp(min=1e-8).repeat_interleave(block_size)[: len(codes)] * levels.float()[codes.long()]
