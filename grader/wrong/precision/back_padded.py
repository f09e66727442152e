"""Numbers of a last block that is filled up are returned as well.

hint: as many numbers as codes
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != math.ceil(len(codes) / block_size):
        raise ValueError(f"scales has {len(scales)} entries for {len(codes)} codes in blocks of {block_size}")
    codes = F.pad(codes, (0, -len(codes) % block_size))
    return scales.repeat_interleave(block_size) * levels.float()[codes.long()]
