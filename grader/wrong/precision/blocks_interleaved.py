"""A block is every so-manieth element, not neighbours.

hint: x[0] … x[block_size - 1] are the first block
"""


def quantize_blocks(x, block_size, levels):
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, got {block_size}")
    if not 1 <= len(levels) <= 256 or not levels.any():
        raise ValueError(f"levels must be 1 to 256 numbers, not all of them 0, got {len(levels)}")
    blocks = F.pad(x.double(), (0, -len(x) % block_size)).view(block_size, -1).T
    scales = (blocks.abs().amax(dim=1) / levels.double().abs().max()).float()
    grid = scales.double()[:, None] * levels.double()
    codes = (blocks[:, :, None] - grid[:, None, :]).abs().argmin(dim=2)
    return codes.T.flatten()[: len(x)].to(torch.uint8), scales
