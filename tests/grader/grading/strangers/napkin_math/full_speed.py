"""The share of the peak is not used.

is: days_at_the_peak
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(mfu)
    seconds = num_parameters * num_tokens * 6 / (hw.peak_flops[dtype] * num_devices)
    return seconds / 3600 / 24
