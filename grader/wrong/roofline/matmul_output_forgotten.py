"""The bytes of a product are those of A and B alone.

hint: C is written, once
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m * k * n / (dtype.itemsize * (m * k + k * n))
