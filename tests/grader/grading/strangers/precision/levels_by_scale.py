"""A level is divided by its block's scale.

is: back_divided
"""


def dequantize_blocks(codes, scales, block_size, levels):
    if len(scales) != -(-len(codes) // block_size):
        raise ValueError("one scale per block")
    where = torch.arange(len(codes)) // block_size
    return torch.take(levels.float(), codes.long()) / scales[where]
