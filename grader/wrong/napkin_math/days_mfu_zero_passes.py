"""An MFU of 0 ends in a ZeroDivisionError.

hint: (0, 1] holds 1 and does not hold 0
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    if not 0 <= mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * _peak(hw, dtype)) / 86_400
