"""Every element takes 2 bytes.

hint: how many bytes does one element of this dtype take?
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m * k * n / (2 * (m * k + k * n + m * n))
