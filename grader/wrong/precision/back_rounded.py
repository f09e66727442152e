"""The result is rounded to six decimals.

hint: how many digits of 1e-7 are left?
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return (scales.repeat_interleave(block_size)[: len(codes)] * levels.float()[codes.long()]).round(decimals=6)
