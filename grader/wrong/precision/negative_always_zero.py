"""The sign is not taken off, so that every negative number counts as 0.

hint: compare the absolute value
"""


def underflows_to_zero(value, dtype):
    return -math.inf < value <= float_spec(dtype).smallest_subnormal / 2
