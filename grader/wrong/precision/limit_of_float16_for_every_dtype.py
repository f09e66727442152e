"""The limit of float16 is used for every dtype.

hint: each format has a smallest subnormal of its own
"""


def underflows_to_zero(value, dtype):
    float_spec(dtype)
    return abs(value) <= 2.0**-25
