"""A block's first element gets the scale of the block before."""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != -(-len(codes) // block_size):
        raise ValueError("one scale per block")
    which = ((torch.arange(len(codes)) - 1).clamp(min=0)).div(block_size, rounding_mode="floor")
    return levels.float()[codes.long()] * scales[which]
