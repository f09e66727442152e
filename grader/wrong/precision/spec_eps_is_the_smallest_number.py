"""eps is taken for the smallest positive number.

hint: eps is the gap between 1 and the next number
"""


def float_spec(dtype):
    info = torch.finfo(dtype)
    mantissa_bits = int(-math.log2(info.eps))
    return FloatSpec(
        bits=info.bits,
        exponent_bits=info.bits - 1 - mantissa_bits,
        mantissa_bits=mantissa_bits,
        max=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        eps=info.tiny,
    )
