"""A dtype without a peak is a KeyError.

hint: a KeyError does not say what is wrong with the call: a ValueError that names dtype
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[dtype]) / 86_400
