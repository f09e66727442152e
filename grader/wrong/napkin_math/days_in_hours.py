"""The result is in hours.

hint: a day is 24 · 3,600 seconds
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[dtype]) / 3_600
