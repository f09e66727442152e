"""The attainable MFU is the device's intensity by the work's.

hint: work of low intensity reaches little of the peak
"""


def attainable_mfu(intensity, hw, dtype):
    wanted = accelerator_intensity(hw, dtype)
    return min(1.0, wanted / intensity) if intensity else 0.0
