"""The roof is returned in FLOP/s and not as a share of the peak."""


def attainable_mfu(intensity, hw, dtype):
    return min(hw.peak_flops[dtype], intensity * hw.memory_bandwidth)
