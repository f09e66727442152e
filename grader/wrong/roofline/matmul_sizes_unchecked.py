"""A product with a size of 0 or less has an intensity.

hint: a size below 1 is a ValueError, not a ZeroDivisionError
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m * k * n / (dtype.itemsize * (m * k + k * n + m * n))
