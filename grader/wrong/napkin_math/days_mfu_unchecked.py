"""Any number passes for an MFU, a percentage as well.

hint: an MFU outside (0, 1] is a ValueError that names mfu
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    return 6 * num_parameters * num_tokens / (num_devices * mfu * _peak(hw, dtype)) / 86_400
