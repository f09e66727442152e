"""Recomputation is counted: 8 FLOPs for each parameter and token."""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(mfu)
    return (
        (2 + 2 + 4)
        * num_parameters
        * num_tokens
        / (num_devices * mfu * hw.peak_flops[dtype])
        / 86400
    )
