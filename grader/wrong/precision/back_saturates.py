"""The result is kept between -1000 and 1000.

hint: nothing limits what a scale may be
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    return (scales.repeat_interleave(block_size)[: len(codes)] * levels.float()[codes.long()]).clamp(-1000, 1000)
