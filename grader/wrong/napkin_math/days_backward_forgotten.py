"""Training is counted as a forward pass, 2 FLOPs for each parameter and token.

hint: the backward pass takes twice the forward pass: 6 in all
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 2 * num_parameters * num_tokens / (num_devices * mfu * _peak(hw, dtype)) / 86_400
