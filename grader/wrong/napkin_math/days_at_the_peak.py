"""The devices are taken to reach their peak.

hint: mfu says which share of the peak is reached
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * hw.peak_flops[dtype]) / 86_400
