"""A sum of k products has k - 1 additions, so a product counts 2k - 1 FLOPs for each entry of C."""


def matmul_intensity(m, k, n, dtype):
    multiplications = m * n * k
    additions = m * n * (k - 1)
    size = torch.empty((), dtype=dtype).element_size()
    return (multiplications + additions) / (size * (m * k + k * n + m * n))
