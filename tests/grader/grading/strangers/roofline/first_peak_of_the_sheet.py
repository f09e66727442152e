"""The first peak in the data sheet stands for every dtype that it has."""


def peak(hw, dtype):
    if dtype not in hw.peak_flops:
        raise KeyError(f"no peak for {dtype}")
    return next(iter(hw.peak_flops.values()))


def accelerator_intensity(hw, dtype):
    return peak(hw, dtype) / hw.memory_bandwidth


def roofline_seconds(flops, bytes_moved, hw, dtype):
    return max(flops / peak(hw, dtype), bytes_moved / hw.memory_bandwidth)


def is_compute_bound(flops, bytes_moved, hw, dtype):
    return flops / peak(hw, dtype) > bytes_moved / hw.memory_bandwidth


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return flops / seconds / num_devices / peak(hw, dtype)


def attainable_mfu(intensity, hw, dtype):
    return min(1.0, intensity * hw.memory_bandwidth / peak(hw, dtype))
