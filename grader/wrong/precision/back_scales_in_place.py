"""Scales are multiplied in place.

hint: leave the input as it was
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    largest = levels.float().abs().max()
    scales.mul_(largest)
    return scales.repeat_interleave(block_size)[: len(codes)] * (levels.float() / largest)[codes.long()]
