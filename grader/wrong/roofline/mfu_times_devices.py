"""The FLOPs are taken for those of each device.

hint: flops are those of all devices together
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return flops * num_devices / (seconds * _peak(hw, dtype))
