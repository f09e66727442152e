"""Only positive numbers are taken to become 0.

hint: compare the absolute value
"""


def underflows_to_zero(value, dtype):
    return 0 <= value <= float_spec(dtype).smallest_subnormal / 2
