"""The intensity of a device divides by the size of its memory and not by its speed."""


def accelerator_intensity(hw, dtype):
    if dtype not in hw.peak_flops:
        raise ValueError(f"{hw.name} has no peak for {dtype}")
    flops_per_second = hw.peak_flops[dtype]
    return flops_per_second / hw.memory_bytes
