"""A block takes elements at a fixed distance instead of neighbours.

hint: x[0] … x[block_size - 1] are the first block
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    blocks = F.pad(x.double(), (0, -len(x) % block_size)).view(block_size, -1).T
    scales = (blocks.abs().amax(dim=1) / levels.double().abs().max()).float()
    grid = scales.double()[:, None] * levels.double()
    codes = (blocks[:, :, None] - grid[:, None, :]).abs().argmin(dim=2)
    return codes.T.flatten()[: len(x)].to(torch.uint8), scales
