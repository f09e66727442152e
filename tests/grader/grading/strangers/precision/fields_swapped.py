"""Exponent bits and mantissa bits stand in each other's place."""


def float_spec(dtype):
    info = torch.finfo(dtype)
    m = round(-math.log2(info.eps))
    e = info.bits - 1 - m
    return FloatSpec(info.bits, m, e, info.max, info.tiny, info.tiny * info.eps, info.eps)
