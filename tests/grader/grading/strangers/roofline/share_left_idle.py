"""The share of the peak that was not used is returned."""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    possible = hw.peak_flops[dtype] * num_devices * seconds
    return (possible - flops) / possible
