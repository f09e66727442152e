"""Multiplies by the scale's reciprocal, pads blocks, and uses one_hot @ levels."""


def float_spec(dtype):
    fields = {
        torch.float64: (11, 52),
        torch.float32: (8, 23),
        torch.float16: (5, 10),
        torch.bfloat16: (8, 7),
        torch.float8_e5m2: (5, 2),
        torch.float8_e4m3fn: (4, 3),
    }
    if not isinstance(dtype, torch.dtype) or dtype not in fields:
        raise ValueError(f"dtype {dtype} has no entry here")
    e, m = fields[dtype]
    low = 2 - 2 ** (e - 1)
    largest = math.ldexp(2 ** (m + 1) - 1, 1 - low - m)
    if dtype == torch.float8_e4m3fn:
        largest = 448
    return FloatSpec(
        dtype.itemsize * 8,
        e,
        m,
        largest,
        math.ldexp(1, low),
        math.ldexp(1, low - m),
        math.ldexp(1, -m),
    )


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
