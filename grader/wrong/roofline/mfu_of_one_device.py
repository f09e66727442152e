"""The number of devices is ignored.

hint: flops are those of all devices together: so must be the peak
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return flops / (seconds * hw.peak_flops[dtype])
