"""An MFU above 1 is an error.

hint: mfu reports what was measured; training_days is the one that refuses such a number
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    _require_not_negative(flops=flops)
    _require_positive(seconds=seconds, num_devices=num_devices)
    share = flops / (seconds * num_devices * _peak(hw, dtype))
    if share > 1:
        raise ValueError(f"an MFU of {share} is impossible, check flops and seconds")
    return share
