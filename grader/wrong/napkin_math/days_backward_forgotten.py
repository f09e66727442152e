"""Training is counted as a forward pass, 2 FLOPs for each parameter and token.

hint: the backward pass takes twice the forward pass: 6 in all
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 2 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[dtype]) / 86_400
