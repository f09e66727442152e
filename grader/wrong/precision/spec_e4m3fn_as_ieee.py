"""float8_e4m3fn is given infinities like the other formats, so it ends at 240.

hint: e4m3fn has no infinity: its largest exponent field holds numbers too
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
    largest = 2.0**bias * (2 - 2.0**-m)
    return FloatSpec(1 + e + m, e, m, largest, 2.0 ** (1 - bias), 2.0 ** (1 - bias - m), 2.0**-m)
