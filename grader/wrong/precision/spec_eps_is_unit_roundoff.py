"""eps is half the gap after 1, the largest rounding error.

hint: eps is the gap between 1 and the next number
"""


def float_spec(dtype):
    formats = {
        torch.float64: (11, 52),
        torch.float32: (8, 23),
        torch.float16: (5, 10),
        torch.bfloat16: (8, 7),
        torch.float8_e4m3fn: (4, 3),
        torch.float8_e5m2: (5, 2),
    }
    e, m = formats[dtype]
    bias = 2 ** (e - 1) - 1
    largest = 448.0 if dtype == torch.float8_e4m3fn else 2.0**bias * (2 - 2.0**-m)
    return FloatSpec(1 + e + m, e, m, largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - m), 2.0 ** -(m + 1))
