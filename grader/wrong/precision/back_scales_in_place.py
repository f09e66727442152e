"""Scales are multiplied in place.

hint: leave the input as it was
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    largest = levels.float().abs().max()
    scales.mul_(largest)
    return scales.repeat_interleave(block_size)[: len(codes)] * (levels.float() / largest)[codes.long()]
