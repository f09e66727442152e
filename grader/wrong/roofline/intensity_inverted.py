"""The device's intensity is bytes per FLOP.

hint: FLOP/s divided by bytes/s is FLOP per byte
"""


def accelerator_intensity(hw, dtype):
    return hw.memory_bandwidth / hw.peak_flops[dtype]
