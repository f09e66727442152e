"""Uses numpy in float64: a padded array of blocks, argmin, take and repeat."""

import numpy as np


def float_spec(dtype):
    names = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
    if str(dtype).removeprefix("torch.") not in names:
        raise ValueError(f"dtype must be one of {names}")
    info = torch.finfo(dtype)
    mantissa = round(np.log2(1 / info.eps))
    smallest = np.float64(info.tiny) * np.float64(2) ** -mantissa
    return FloatSpec(
        info.bits,
        info.bits - 1 - mantissa,
        mantissa,
        info.max,
        info.tiny,
        smallest,
        np.float64(info.eps),
    )


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
    return torch.from_numpy(
        (np.take(levels.double().numpy(), codes.numpy()) * each).astype(np.float32)
    )
