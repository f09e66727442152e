"""A run of no tokens, or of negative ones, takes a number of days.

hint: a count below 1 is a ValueError that names the argument
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * _peak(hw, dtype)) / 86_400
