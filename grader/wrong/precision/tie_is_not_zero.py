"""Exactly half of the smallest subnormal is not taken for 0.

hint: a tie goes to the even mantissa, 0
"""


def underflows_to_zero(value, dtype):
    return abs(value) < float_spec(dtype).smallest_subnormal / 2 or value == 0
