"""Every product is taken for a square one of m.

hint: n/3 holds for square matrices: write down the shapes of A, B and C
"""


def matmul_intensity(m, k, n, dtype):
    return 2 * m / (3 * dtype.itemsize)
