"""C is written in float32, in which a product is accumulated, whatever the dtype."""


def matmul_intensity(m, k, n, dtype):
    inputs = (m * k + k * n) * dtype.itemsize
    output = m * n * torch.float32.itemsize
    return 2 * m * k * n / (inputs + output)
