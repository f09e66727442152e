"""Complex dtypes and other kinds of fp8 are taken as well, with what torch.finfo says of them.

hint: is the dtype one of the six? torch.finfo takes more
"""


def float_spec(dtype):
    try:
        info = torch.finfo(dtype)
    except TypeError as e:
        raise ValueError(f"dtype {dtype} is no floating-point dtype") from e
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
