"""The number of devices is ignored.

hint: flops are those of all devices together: so must be the peak
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return flops / (seconds * _peak(hw, dtype))
