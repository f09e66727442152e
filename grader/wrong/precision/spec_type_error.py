"""torch.finfo's TypeError for an integer dtype comes through.

hint: a dtype that is none of the six is a ValueError
"""


def float_spec(dtype):
    info = torch.finfo(dtype)
    if dtype.is_complex or str(dtype).endswith("fnuz"):
        raise ValueError(f"dtype {dtype} is not supported")
    mantissa_bits = int(-math.log2(info.eps))
    return FloatSpec(
        bits=info.bits,
        exponent_bits=info.bits - 1 - mantissa_bits,
        mantissa_bits=mantissa_bits,
        max=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        eps=info.eps,
    )
