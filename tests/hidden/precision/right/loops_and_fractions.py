"""Uses exact fractions for the formats, and plain Python loops over blocks and levels."""

from fractions import Fraction

FORMATS = {
    torch.float64: (11, 52),
    torch.float32: (8, 23),
    torch.float16: (5, 10),
    torch.bfloat16: (8, 7),
    torch.float8_e4m3fn: (4, 3),
    torch.float8_e5m2: (5, 2),
}


def exact(dtype):
    if dtype not in FORMATS:
        raise ValueError(f"{dtype} is no dtype that this knows")
    e, m = FORMATS[dtype]
    bias = 2 ** (e - 1) - 1
    step = Fraction(1, 2**m)
    if dtype is torch.float8_e4m3fn:
        largest = 2 ** (bias + 1) * (2 - 2 * step)
    else:
        largest = 2**bias * (2 - step)
    normal = Fraction(2) ** (1 - bias)
    return e, m, largest, normal, normal * step, step


def float_spec(dtype):
    e, m, largest, normal, subnormal, step = exact(dtype)
    return FloatSpec(1 + e + m, e, m, float(largest), float(normal), float(subnormal), float(step))


def underflows_to_zero(value, dtype):
    subnormal = exact(dtype)[4]
    return math.isfinite(value) and abs(Fraction(value)) * 2 <= subnormal


def quantize_blocks(x, block_size, levels):
    values, grid = x.tolist(), levels.tolist()
    top = max(abs(level) for level in grid)
    codes, scales = [], []
    for start in range(0, len(values), block_size):
        block = values[start : start + block_size]
        scale = max(abs(v) for v in block) / top
        scales.append(scale)
        for v in block:
            best = 0
            for i, level in enumerate(grid):
                if abs(v - scale * level) < abs(v - scale * grid[best]):
                    best = i
            codes.append(best)
    return torch.tensor(codes, dtype=torch.uint8), torch.tensor(scales, dtype=torch.float32)


def dequantize_blocks(codes, scales, block_size, levels):
    scale, level = scales.tolist(), levels.tolist()
    out = [scale[i // block_size] * level[code] for i, code in enumerate(codes.tolist())]
    return torch.tensor(out, dtype=torch.float32)
