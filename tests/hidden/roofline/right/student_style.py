"""Reads sizes from torch, adds up the devices' peaks, and returns the int 1 above the ridge."""


def accelerator_intensity(hw, dtype):
    try:
        flops_per_second = hw.peak_flops[dtype]
    except KeyError as e:
        raise ValueError(f"Unsupported dtype: {dtype}") from e
    bytes_per_second = hw.memory_bandwidth
    return flops_per_second / bytes_per_second


def matmul_intensity(m, k, n, dtype):
    a = torch.empty(m, k, device="meta", dtype=dtype)
    b = torch.empty(k, n, device="meta", dtype=dtype)
    c = torch.empty(m, n, device="meta", dtype=dtype)
    bytes_transferred = sum(x.numel() * x.element_size() for x in (a, b, c))
    flops = 2 * m * n * k
    return flops / bytes_transferred


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    element = torch.empty((), dtype=dtype).element_size()
    traffic = tensors_read * element + tensors_written * element
    return flops_per_element / traffic


def roofline_seconds(flops, bytes_moved, hw, dtype):
    bandwidth = hw.memory_bandwidth
    peak = accelerator_intensity(hw, dtype) * bandwidth
    compute_time = flops / peak
    memory_time = bytes_moved / bandwidth
    if compute_time > memory_time:
        return compute_time
    return memory_time


def is_compute_bound(flops, bytes_moved, hw, dtype):
    return flops >= bytes_moved * accelerator_intensity(hw, dtype)


def mfu(flops, seconds, hw, dtype, num_devices=1):
    total_peak = 0.0
    for _ in range(num_devices):
        total_peak += hw.peak_flops[dtype]
    return flops / (seconds * total_peak)


def attainable_mfu(intensity, hw, dtype):
    return min(1, intensity / accelerator_intensity(hw, dtype))


def min_rows(k, n, hw, dtype):
    limit = 2 * k * n / (dtype.itemsize * (k + n))  # the intensity of infinitely many rows
    ridge = accelerator_intensity(hw, dtype)
    if limit <= ridge:
        return None
    m = max(1, int(ridge * dtype.itemsize / 2) - 2)
    if ridge > 0.999 * limit:
        m = max(
            1,
            int(ridge * dtype.itemsize * k * n / (2 * k * n - ridge * dtype.itemsize * (k + n)))
            - 2,
        )
    while 2 * m * k * n < ridge * dtype.itemsize * (m * k + k * n + m * n):
        m += 1
    return m
