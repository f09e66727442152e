"""The smallest normal number is taken for the smallest one of all.

hint: subnormal numbers lie between 0 and the smallest normal number
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
        smallest_subnormal=info.smallest_normal,
        eps=info.eps,
    )
