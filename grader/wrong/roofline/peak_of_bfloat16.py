"""The device's intensity takes the bfloat16 peak for every dtype.

hint: hw.peak_flops[dtype]: float32 has another peak
"""


def accelerator_intensity(hw, dtype):
    if dtype not in hw.peak_flops:
        raise ValueError(f"{hw.name} has no peak for the dtype {dtype}")
    return hw.peak_flops[torch.bfloat16] / hw.memory_bandwidth
