"""The bytes of an element are asked of torch.finfo, which knows no integers.

hint: dtype.itemsize knows every dtype
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m * k * n / (torch.finfo(dtype).bits // 8 * (m * k + k * n + m * n))
