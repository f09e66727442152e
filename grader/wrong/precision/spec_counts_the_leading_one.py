"""The implied leading 1 is counted as a mantissa bit.

hint: the leading 1 is not stored
"""


def float_spec(dtype):
    known = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
    if dtype not in known:
        raise ValueError(f"dtype {dtype} is none of {known}")
    info = torch.finfo(dtype)
    mantissa_bits = int(-math.log2(info.eps))
    return FloatSpec(
        bits=info.bits,
        exponent_bits=info.bits - 1 - mantissa_bits,
        mantissa_bits=mantissa_bits + 1,
        max=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        eps=info.eps,
    )
