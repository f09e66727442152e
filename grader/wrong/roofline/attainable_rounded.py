"""The attainable MFU is rounded to six decimals.

hint: a matrix-vector product reaches less than one part in a thousand: return the quotient as it is
"""


def attainable_mfu(intensity, hw, dtype):
    return round(min(1.0, intensity / accelerator_intensity(hw, dtype)), 6)
