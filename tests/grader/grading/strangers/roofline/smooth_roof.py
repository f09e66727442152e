"""The roof is a smooth curve, I / (I + ridge), which is half of the peak at the ridge."""


def attainable_mfu(intensity, hw, dtype):
    ridge = hw.peak_flops[dtype] / hw.memory_bandwidth
    return intensity / (intensity + ridge)
