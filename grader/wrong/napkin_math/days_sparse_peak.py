"""The peak is doubled, as data sheets do for sparsity.

hint: hw.peak_flops are the dense peaks, and training is dense
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * 2 * hw.peak_flops[dtype]) / 86_400
