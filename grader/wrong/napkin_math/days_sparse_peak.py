"""The peak is doubled, as data sheets do for sparsity.

hint: hw.peak_flops are the dense peaks, and training is dense
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    _require_positive(num_parameters=num_parameters, num_tokens=num_tokens, num_devices=num_devices)
    if not 0 < mfu <= 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * 2 * _peak(hw, dtype)) / 86_400
