"""The bfloat16 peak is taken for every dtype.

hint: hw.peak_flops[dtype]: float32 has another peak
"""


def training_days(num_parameters, num_tokens, hw, dtype, num_devices, mfu):
    if mfu > 1:
        raise ValueError(f"mfu is {mfu}")
    return 6 * num_parameters * num_tokens / (num_devices * mfu * hw.peak_flops[torch.bfloat16]) / 86_400
