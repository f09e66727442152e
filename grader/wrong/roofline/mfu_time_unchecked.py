"""No time and no devices end in a ZeroDivisionError.

hint: say what is wrong with the call: a ValueError that names the argument
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    return flops / (seconds * num_devices * _peak(hw, dtype))
