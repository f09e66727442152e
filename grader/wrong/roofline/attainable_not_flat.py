"""The attainable MFU goes on rising above the ridge.

hint: above the ridge the device computes all the time: 1
"""


def attainable_mfu(intensity, hw, dtype):
    return intensity / accelerator_intensity(hw, dtype)
