"""The tie between 0 and the smallest number is not taken for 0.

is: tie_is_not_zero
"""


def underflows_to_zero(value, dtype):
    half = float_spec(dtype).smallest_subnormal / 2
    return value == 0 or -half < value < half
