"""Codes go through int8, where 128 becomes -128, and count from the end of the levels.

hint: codes are 0 … 255, without a sign
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return scales.repeat_interleave(block_size)[: len(codes)] * levels.float()[codes.to(torch.int8).long()]
