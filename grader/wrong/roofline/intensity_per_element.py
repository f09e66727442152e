"""The device's intensity is FLOPs per element, not per byte.

hint: bandwidth is in bytes/s already
"""


def accelerator_intensity(hw, dtype):
    return hw.peak_flops[dtype] / (hw.memory_bandwidth / dtype.itemsize)
