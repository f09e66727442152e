"""0 itself does not count.

hint: the question is whether the result is 0
"""


def underflows_to_zero(value, dtype):
    return 0 < abs(value) <= float_spec(dtype).smallest_subnormal / 2
