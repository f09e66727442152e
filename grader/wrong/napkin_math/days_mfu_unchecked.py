"""A percentage is accepted as the MFU.

hint: 0.4, not 40: an MFU above 1 raises ValueError
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    return 6 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[dtype]) / 86_400
