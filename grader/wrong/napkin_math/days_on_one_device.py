"""The number of devices is ignored.

hint: all devices work at once
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (mfu * hw.peak_flops[dtype]) / 86_400
