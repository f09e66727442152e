"""Blocks are cut from the storage of x by as_strided, as if x were contiguous.

hint: an element lies stride[0] after the one before it, which is 1 for some vectors only
"""


def quantize_blocks(x, block_size, levels):
    if len(levels) > 256:
        raise ValueError(f"levels has {len(levels)} entries, a uint8 names 256")
    n = len(x)
    if n % block_size:
        x = F.pad(x, (0, -n % block_size))
    blocks = torch.as_strided(x, (len(x) // block_size, block_size), (block_size, 1)).double()
    scales = (blocks.abs().amax(dim=1) / levels.double().abs().max()).float()
    grid = scales.double()[:, None] * levels.double()
    codes = (blocks[:, :, None] - grid[:, None, :]).abs().argmin(dim=2)
    return codes.flatten()[:n].to(torch.uint8), scales
