"""A multiply and an add are one FLOP.

hint: a multiply and an add are two FLOPs
"""


def matmul_intensity(m, k, n, dtype):
    return m * k * n / (dtype.itemsize * (m * k + k * n + m * n))
