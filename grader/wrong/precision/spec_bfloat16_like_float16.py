"""bfloat16 is given the bit fields of float16.

hint: bfloat16 is the upper half of float32: 8 exponent bits
"""


def float_spec(dtype):
    formats = {
        torch.float64: (11, 52),
        torch.float32: (8, 23),
        torch.float16: (5, 10),
        torch.bfloat16: (5, 10),
        torch.float8_e4m3fn: (4, 3),
        torch.float8_e5m2: (5, 2),
    }
    e, m = formats[dtype]
    bias = 2 ** (e - 1) - 1
    largest = 448.0 if dtype == torch.float8_e4m3fn else 2.0**bias * (2 - 2.0**-m)
    return FloatSpec(1 + e + m, e, m, largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - m), 2.0**-m)
