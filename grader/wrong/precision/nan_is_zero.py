"""What is not above the limit counts as 0, and NaN is not above anything.

hint: every comparison with NaN is false, so ask for what has to be true
"""


def underflows_to_zero(value, dtype):
    return not abs(value) > float_spec(dtype).smallest_subnormal / 2
