"""Computes with Fractions, and converts to float once at the end."""


def exactly(hw, dtype):
    if dtype not in hw.peak_flops:
        raise ValueError(f"no peak for dtype={dtype}")
    return Fraction(hw.peak_flops[dtype]), Fraction(hw.memory_bandwidth)


def accelerator_intensity(hw, dtype):
    peak, bandwidth = exactly(hw, dtype)
    return float(peak / bandwidth)


def matmul_intensity(m, k, n, dtype):
    return float(Fraction(2 * m * k * n, dtype.itemsize * (m * k + k * n + m * n)))


def roofline_seconds(flops, bytes_moved, hw, dtype):
    peak, bandwidth = exactly(hw, dtype)
    return float(max(Fraction(flops) / peak, Fraction(bytes_moved) / bandwidth))


def is_compute_bound(flops, bytes_moved, hw, dtype):
    peak, bandwidth = exactly(hw, dtype)
    return Fraction(flops) / peak >= Fraction(bytes_moved) / bandwidth


def mfu(flops, seconds, hw, dtype, num_devices=1):
    return float(Fraction(flops) / Fraction(seconds) / num_devices / exactly(hw, dtype)[0])


def attainable_mfu(intensity, hw, dtype):
    peak, bandwidth = exactly(hw, dtype)
    return float(min(Fraction(1), Fraction(intensity) * bandwidth / peak))


def min_rows(k, n, hw, dtype):
    peak, bandwidth = exactly(hw, dtype)
    # m · (2 / peak − size (1 / n + 1 / k) / bandwidth) = size / bandwidth
    traffic = Fraction(dtype.itemsize) / bandwidth
    left = 2 / peak - traffic * (Fraction(1, n) + Fraction(1, k))
    return max(1, math.ceil(traffic / left)) if left > 0 else None
