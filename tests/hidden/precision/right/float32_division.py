"""Computes in float32: divides x by its scales, broadcasts distances, and indexes the blocks."""


def underflows_to_zero(value, dtype):
    spec = float_spec(dtype)
    return bool(-spec.smallest_subnormal <= 2 * value <= spec.smallest_subnormal)


def quantize_blocks(x, block_size, levels):
    x, levels = x.float(), levels.float()
    top = levels.abs().max()
    n = x.numel()
    block = torch.arange(n) // block_size
    scales = torch.zeros(-(-n // block_size)).scatter_reduce(0, block, x.abs(), "amax") * (1 / top)
    safe = torch.where(scales == 0, 1, scales)
    codes = ((x / safe[block]).unsqueeze(1) - levels).abs().min(dim=1).indices
    return codes.byte(), scales


def dequantize_blocks(codes, scales, block_size, levels):
    n = codes.numel()
    return torch.gather(levels.float(), 0, codes.long()) * scales[torch.arange(n) // block_size]
