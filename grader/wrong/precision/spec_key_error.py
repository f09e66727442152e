"""A table is asked for any dtype, so that an unknown one is a KeyError.

hint: a dtype that is none of the six is a ValueError
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
    bias = 2 ** (e - 1) - 1
    largest = 448.0 if dtype == torch.float8_e4m3fn else 2.0**bias * (2 - 2.0**-m)
    return FloatSpec(1 + e + m, e, m, largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - m), 2.0**-m)
