"""A dtype without a peak is taken for float32.

hint: a device that cannot compute in a dtype has no MFU in it: raise ValueError
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    return flops / (seconds * num_devices * hw.peak_flops.get(dtype, hw.peak_flops[torch.float32]))
