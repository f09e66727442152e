"""A negative intensity has a negative MFU.

hint: a negative amount is a ValueError that names the argument
"""


def attainable_mfu(intensity, hw, dtype):
    return min(1.0, intensity / accelerator_intensity(hw, dtype))
