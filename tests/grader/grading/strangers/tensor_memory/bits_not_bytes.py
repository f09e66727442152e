"""The size of the tensor is given in bits."""


def tensor_bytes(x):
    return sum(8 * x.dtype.itemsize for _ in range(1)) * x.numel()
