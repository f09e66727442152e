"""Assertions of the arguments one by one, sizes asked of torch, branches, and an integer 1 above the ridge."""


def accelerator_intensity(hw, dtype):
    try:
        flops_per_second = hw.peak_flops[dtype]
    except KeyError as e:
        raise ValueError(f"Unsupported dtype: {dtype}") from e
    bytes_per_second = hw.memory_bandwidth
    return flops_per_second / bytes_per_second


def matmul_intensity(m, k, n, dtype):
    if m <= 0 or k <= 0 or n <= 0:
        raise ValueError(f"invalid dimensions m={m}, k={k}, n={n}")
    a = torch.empty(m, k, device="meta", dtype=dtype)
    b = torch.empty(k, n, device="meta", dtype=dtype)
    c = torch.empty(m, n, device="meta", dtype=dtype)
    bytes_transferred = sum(x.numel() * x.element_size() for x in (a, b, c))
    flops = 2 * m * n * k
    return flops / bytes_transferred


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    if flops_per_element < 0 or tensors_read < 0 or tensors_written < 0:
        raise ValueError("flops_per_element, tensors_read and tensors_written cannot be negative")
    element = torch.empty((), dtype=dtype).element_size()
    traffic = tensors_read * element + tensors_written * element
    if not traffic:
        raise ValueError("nothing is moved")
    return flops_per_element / traffic


def roofline_seconds(flops, bytes_moved, hw, dtype):
    if flops < 0 or bytes_moved < 0:
        raise ValueError("flops and bytes_moved cannot be negative")
    bandwidth = hw.memory_bandwidth
    peak = accelerator_intensity(hw, dtype) * bandwidth
    compute_time = flops / peak
    memory_time = bytes_moved / bandwidth
    if compute_time > memory_time:
        return compute_time
    return memory_time


def is_compute_bound(flops, bytes_moved, hw, dtype):
    if flops < 0 or bytes_moved < 0:
        raise ValueError("flops and bytes_moved cannot be negative")
    threshold = accelerator_intensity(hw, dtype)
    if bytes_moved == 0:
        return True
    return flops / bytes_moved >= threshold


def attainable_mfu(intensity, hw, dtype):
    if intensity < 0:
        raise ValueError("intensity cannot be negative")
    return min(1, intensity / accelerator_intensity(hw, dtype))
