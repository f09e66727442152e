"""Everything up to half of the smallest normal number becomes zero."""


def underflows_to_zero(value, dtype):
    spec = float_spec(dtype)
    return -spec.smallest_normal / 2 <= value <= spec.smallest_normal / 2
