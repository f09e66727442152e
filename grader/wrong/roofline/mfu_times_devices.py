"""The FLOPs are taken for those of each device.

hint: flops are those of all devices together
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return flops * num_devices / (seconds * hw.peak_flops[dtype])
