"""The formula of IEEE formats is used for float8_e4m3fn as well.

is: spec_e4m3fn_as_ieee
"""


def float_spec(dtype):
    e, m = {
        torch.float64: (11, 52),
        torch.float32: (8, 23),
        torch.float16: (5, 10),
        torch.bfloat16: (8, 7),
        torch.float8_e4m3fn: (4, 3),
        torch.float8_e5m2: (5, 2),
    }[dtype]
    bias = (1 << (e - 1)) - 1
    return FloatSpec(
        1 + e + m,
        e,
        m,
        math.ldexp(2 - math.ldexp(1.0, -m), bias),
        2.0 ** (1 - bias),
        math.ldexp(1.0, 1 - bias - m),
        2.0**-m,
    )
