"""The scales go round and round over the elements.

is: back_scales_tiled
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != -(-len(codes) // block_size):
        raise ValueError("one scale per block")
    which = torch.arange(len(codes)).remainder(max(len(scales), 1))
    return levels.float().index_select(0, codes.int()) * scales.gather(0, which)
