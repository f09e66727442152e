"""The counts of bits are floats.

hint: a count is an int; math.log2 gives a float
"""


def float_spec(dtype):
    info = torch.finfo(dtype)
    mantissa_bits = -math.log2(info.eps)
    return FloatSpec(
        bits=info.bits,
        exponent_bits=info.bits - 1 - mantissa_bits,
        mantissa_bits=mantissa_bits,
        max=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        eps=info.eps,
    )
