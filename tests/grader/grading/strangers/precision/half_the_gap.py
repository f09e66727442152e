"""eps is the rounding error at 1, half of the gap after it.

is: spec_eps_is_unit_roundoff
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
    largest = torch.finfo(dtype).max
    return FloatSpec(
        1 + e + m, e, m, largest, 2.0 ** (1 - bias), math.ldexp(1.0, 1 - bias - m), 2.0 ** (-m - 1)
    )
