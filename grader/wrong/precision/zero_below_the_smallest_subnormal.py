"""Everything below the smallest subnormal number is taken for 0.

hint: what lies above half of it is rounded up to it
"""


def underflows_to_zero(value, dtype):
    return abs(value) < float_spec(dtype).smallest_subnormal
