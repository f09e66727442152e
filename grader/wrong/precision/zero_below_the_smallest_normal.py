"""Everything below the smallest normal number is taken for 0.

hint: subnormal numbers are not 0
"""


def underflows_to_zero(value, dtype):
    return abs(value) < float_spec(dtype).smallest_normal
