"""The device's intensity is FLOPs per element, not per byte.

hint: bandwidth is in bytes/s already
"""


def accelerator_intensity(hw, dtype):
    return _peak(hw, dtype) / (hw.memory_bandwidth / dtype.itemsize)
