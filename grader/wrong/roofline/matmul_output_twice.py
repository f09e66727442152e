"""The result of a product is counted as read and written.

hint: C is written once and never read
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m * k * n / (dtype.itemsize * (m * k + k * n + 2 * m * n))
