"""A day is taken to have 24 * 60 seconds."""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(mfu)
    speed = hw.peak_flops[dtype] * mfu * num_devices
    return 6 * num_parameters * num_tokens / speed / (24 * 60)
