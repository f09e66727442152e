"""Memory-bound work reaches nothing of the peak.

hint: below the ridge the MFU falls in proportion
"""


def attainable_mfu(intensity, hw, dtype):
    return 1.0 if intensity >= accelerator_intensity(hw, dtype) else 0.0
