"""Scales that are left over are ignored, and missing ones are an error of torch's indexing.

hint: one scale a block, no more and no fewer
"""


def dequantize_blocks(codes, scales, block_size, levels):
    return scales[torch.arange(len(codes)) // block_size] * levels.float()[codes.long()]
