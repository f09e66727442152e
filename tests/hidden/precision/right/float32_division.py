"""Computes in float32: divides x by its scales, broadcasts distances, and indexes the blocks."""


def underflows_to_zero(value, dtype):
    spec = float_spec(dtype)
    return bool(-spec.smallest_subnormal <= 2 * value <= spec.smallest_subnormal)


def quantize_blocks(x, block_size, levels):
    if block_size <= 0:
        raise ValueError(f"block_size={block_size}")
    k = levels.numel()
    if k == 0 or k > 256:
        raise ValueError(f"levels has {k} entries")
    x, levels = x.float(), levels.float()
    top = levels.abs().max()
    if top == 0:
        raise ValueError("levels are all zero")
    n = x.numel()
    block = torch.arange(n) // block_size
    scales = torch.zeros(-(-n // block_size)).scatter_reduce(0, block, x.abs(), "amax") * (1 / top)
    safe = torch.where(scales == 0, 1, scales)
    codes = ((x / safe[block]).unsqueeze(1) - levels).abs().min(dim=1).indices
    return codes.byte(), scales


def dequantize_blocks(codes, scales, block_size, levels):
    if block_size <= 0:
        raise ValueError(f"block_size={block_size}")
    n = codes.numel()
    if scales.numel() != -(-n // block_size):
        raise ValueError("wrong number of scales")
    return torch.gather(levels.float(), 0, codes.long()) * scales[torch.arange(n) // block_size]
