# Right solutions of precision in other styles; see grader/solutions/fragments.py.

# [midpoints_and_bucketize] Sorts the distinct levels and searches among their midpoints.
def quantize_blocks(x, block_size, levels):
    first_index = {}
    for i, level in enumerate(levels.tolist()):
        first_index.setdefault(level, i)
    ordered = sorted(first_index)
    index = torch.tensor([first_index[level] for level in ordered])
    grid = torch.tensor(ordered, dtype=torch.float64)
    middle = (grid[1:] + grid[:-1]) / 2
    codes, scales = [], []
    for block in torch.split(x.to(torch.float64), block_size):
        scale = block.abs().max() / grid.abs().max()
        scales.append(scale.item())
        ratio = block / scale if scale > 0 else torch.zeros_like(block)
        low = index[torch.bucketize(ratio, middle)]
        high = index[torch.bucketize(ratio, middle, right=True)]
        codes.append(torch.minimum(low, high).to(torch.uint8))
    return torch.cat(codes), torch.tensor(scales, dtype=torch.float32)


# [multiplied_by_reciprocal] Multiplies by the scale's reciprocal, pads blocks, and uses one_hot @
# levels.
def float_spec(dtype):
    fields = {torch.float64: (11, 52), torch.float32: (8, 23), torch.float16: (5, 10)}
    fields |= {torch.bfloat16: (8, 7), torch.float8_e5m2: (5, 2), torch.float8_e4m3fn: (4, 3)}
    if not isinstance(dtype, torch.dtype) or dtype not in fields:
        raise ValueError(f"dtype {dtype} has no entry here")
    e, m = fields[dtype]
    low = 2 - 2 ** (e - 1)
    largest = math.ldexp(2 ** (m + 1) - 1, 1 - low - m)
    if dtype == torch.float8_e4m3fn:
        largest = 448
    sizes = [math.ldexp(1, power) for power in (low, low - m, -m)]
    return FloatSpec(dtype.itemsize * 8, e, m, largest, *sizes)


def quantize_blocks(x, block_size, levels):
    n = x.shape[0]
    rows = (n + block_size - 1) // block_size
    blocks = torch.zeros(rows, block_size)
    blocks.view(-1)[:n] = x
    scales = blocks.abs().amax(-1) * (1.0 / levels.abs().max().float())
    inverse = torch.where(scales > 0, scales.reciprocal(), 0)
    ratio = (blocks * inverse[:, None]).reshape(-1)[:n]
    code = torch.zeros(n, dtype=torch.uint8)
    best = torch.full((n,), math.inf)
    for i, level in enumerate(levels.float()):
        distance = (ratio - level).abs()
        code[distance < best] = i
        best = torch.minimum(best, distance)
    return [code, scales]


def dequantize_blocks(codes, scales, block_size, levels):
    n, rows = len(codes), len(scales)
    picked = F.one_hot(codes.long(), len(levels)).to(levels.dtype) @ levels
    blocks = F.pad(picked.float(), (0, rows * block_size - n)).reshape(rows, block_size)
    return (scales.unsqueeze(1) * blocks).reshape(-1)[:n]


# [numpy] Uses numpy in float64: a padded array of blocks, argmin, take and repeat.
import numpy as np


def float_spec(dtype):
    names = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    if str(dtype).removeprefix("torch.") not in names:
        raise ValueError(f"dtype must be one of {names}")
    info = torch.finfo(dtype)
    mantissa = round(np.log2(1 / info.eps))
    smallest = np.float64(info.tiny) * np.float64(2) ** -mantissa
    bits = info.bits, info.bits - 1 - mantissa, mantissa
    return FloatSpec(*bits, info.max, info.tiny, smallest, np.float64(info.eps))


def underflows_to_zero(value, dtype):
    return bool(np.abs(np.float64(value)) <= float_spec(dtype).smallest_subnormal / 2)


def quantize_blocks(x, block_size, levels):
    grid = levels.double().numpy()
    n = x.shape[0]
    count = -(-n // block_size)
    padded = np.zeros(count * block_size)
    padded[:n] = x.double().numpy()
    scales = np.abs(padded).reshape(count, block_size).max(axis=1) / np.abs(grid).max()
    per_element = np.repeat(scales, block_size)
    codes = np.abs(padded[:, None] - per_element[:, None] * grid[None, :]).argmin(axis=1)[:n]
    return torch.from_numpy(codes.astype(np.uint8)), torch.from_numpy(scales.astype(np.float32))


def dequantize_blocks(codes, scales, block_size, levels):
    n = codes.shape[0]
    each = np.repeat(scales.numpy(), block_size)[:n]
    product = np.take(levels.double().numpy(), codes.numpy()) * each
    return torch.from_numpy(product.astype(np.float32))
