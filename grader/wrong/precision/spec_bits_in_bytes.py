"""The size of an element in bytes stands in the place of its bits.

hint: a byte is 8 bits
"""


def float_spec(dtype):
    info = torch.finfo(dtype)
    mantissa_bits = int(-math.log2(info.eps))
    return FloatSpec(
        bits=dtype.itemsize,
        exponent_bits=info.bits - 1 - mantissa_bits,
        mantissa_bits=mantissa_bits,
        max=info.max,
        smallest_normal=info.smallest_normal,
        smallest_subnormal=info.smallest_normal * info.eps,
        eps=info.eps,
    )
