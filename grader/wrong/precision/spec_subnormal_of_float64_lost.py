"""The smallest subnormal number is computed in a float32 tensor, where that of float64 is 0.

hint: Python floats are float64; torch.tensor of one is float32
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
        smallest_subnormal=(torch.tensor(info.smallest_normal) * info.eps).item(),
        eps=info.eps,
    )
