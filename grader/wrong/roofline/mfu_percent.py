"""The MFU is a percentage.

hint: 0.5, not 50
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return 100 * flops / (seconds * num_devices * _peak(hw, dtype))
