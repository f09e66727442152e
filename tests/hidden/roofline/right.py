# Right solutions of roofline in other styles; see grader/solutions/fragments.py.

# [cross_multiplied] Compares products instead of quotients, and counts the ridge as compute-bound.
def is_compute_bound(flops, bytes_moved, hw, dtype):
    if hw.peak_flops.get(dtype) is None:
        raise ValueError(f"{hw.name} does not compute in the dtype {dtype}")
    return flops * hw.memory_bandwidth >= bytes_moved * hw.peak_flops[dtype]


def roofline_seconds(flops, bytes_moved, hw, dtype):
    if is_compute_bound(flops, bytes_moved, hw, dtype):
        return flops / hw.peak_flops[dtype]
    return bytes_moved / hw.memory_bandwidth


def min_rows(k, n, hw, dtype):
    def enough(m):
        return is_compute_bound(2 * m * k * n, dtype.itemsize * (m * (k + n) + k * n), hw, dtype)

    if not enough(2**60):
        return None
    low, high = 0, 2**60
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# [exact_fractions] Computes with Fractions, and converts to float once at the end.
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


# [student_style] Counts the ridge as compute-bound, returns the int 1 above it, and tries rows one
# by one.
def is_compute_bound(flops, bytes_moved, hw, dtype):
    return flops >= bytes_moved * accelerator_intensity(hw, dtype)


def attainable_mfu(intensity, hw, dtype):
    return min(1, intensity / accelerator_intensity(hw, dtype))


def min_rows(k, n, hw, dtype):
    limit = 2 * k * n / (dtype.itemsize * (k + n))  # the intensity of infinitely many rows
    ridge = accelerator_intensity(hw, dtype)
    if limit <= ridge:
        return None
    m = max(1, int(ridge * dtype.itemsize / 2) - 2)
    if ridge > 0.999 * limit:
        traffic = ridge * dtype.itemsize
        m = max(1, int(traffic * k * n / (2 * k * n - traffic * (k + n))) - 2)
    while 2 * m * k * n < ridge * dtype.itemsize * (m * k + k * n + m * n):
        m += 1
    return m
