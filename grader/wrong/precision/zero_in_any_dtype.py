"""Any dtype is taken, and rounding is left to torch where it is no known one.

hint: check the dtype first
"""


def underflows_to_zero(value, dtype):
    try:
        return abs(value) <= float_spec(dtype).smallest_subnormal / 2
    except ValueError:
        return bool(torch.tensor(value).to(dtype) == 0)
