"""A negative value is always below the limit.

is: negative_always_zero
"""


def underflows_to_zero(value, dtype):
    return bool(2 * value <= float_spec(dtype).smallest_subnormal) if value else True
