"""The intensity goes through float16.

hint: float16 keeps three digits and ends at 65,504: compute in Python's floats
"""


def matmul_intensity(m, k, n, dtype):
    exact = 2 * m * k * n / (dtype.itemsize * (m * k + k * n + m * n))
    return torch.tensor(exact, dtype=torch.float16).item()
