"""The MFU is a percentage.

hint: 0.5, not 50
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return 100 * flops / (seconds * num_devices * hw.peak_flops[dtype])
