"""The number of devices is ignored.

hint: all devices work at once
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (mfu * _peak(hw, dtype)) / 86_400
