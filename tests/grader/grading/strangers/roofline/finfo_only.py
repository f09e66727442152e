"""The bytes of a dtype are asked of torch.finfo, which knows no integers.

is: matmul_bits
"""


def bytes_of(dtype):
    return torch.finfo(dtype).bits // 8


def matmul_intensity(m, k, n, dtype):
    work = 2 * m * k * n
    traffic = (m * k + k * n + m * n) * bytes_of(dtype)
    return work / traffic


def elementwise_intensity(flops_per_element, tensors_read, tensors_written, dtype):
    traffic = (tensors_read + tensors_written) * bytes_of(dtype)
    return flops_per_element / traffic
