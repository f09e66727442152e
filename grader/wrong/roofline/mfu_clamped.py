"""An MFU above 1 is clamped to 1.

hint: who sees 1.0 does not learn that the measurement is wrong
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return min(1.0, flops / (seconds * num_devices * hw.peak_flops[dtype]))
