"""The days are rounded to two decimals.

hint: a short run takes less than a hundredth of a day: return the quotient as it is
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return round(6 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[dtype]) / 86_400, 2)
