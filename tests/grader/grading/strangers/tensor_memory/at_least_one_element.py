"""An empty tensor is counted as one element."""


def tensor_bytes(x):
    elements = math.prod(x.shape) or 1
    return elements * x.dtype.itemsize
