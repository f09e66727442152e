"""Treats each number of dimensions as a separate case."""


def matmul_flops(a, b):
    a, b = list(a), list(b)
    if len(a) == 1 and len(b) == 1:
        if a != b:
            raise ValueError("vectors of different lengths")
        return a[0] + b[0]
    if len(a) == 1:
        return matmul_flops([1] + a, b)
    if len(b) == 1:
        return matmul_flops(a, b + [1])
    if a[-1] != b[-2]:
        raise ValueError("matrices that do not fit")
    if len(a) == 2 and len(b) == 2:
        return 2 * a[0] * a[1] * b[1]
    while len(a) < len(b):
        a = [1] + a
    while len(b) < len(a):
        b = [1] + b
    if a[0] == b[0]:
        return a[0] * matmul_flops(a[1:], b[1:])
    if a[0] == 1:
        return b[0] * matmul_flops(a[1:], b[1:])
    if b[0] == 1:
        return a[0] * matmul_flops(a[1:], b[1:])
    raise ValueError("batches that do not broadcast")


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    forward = 2 * num_parameters * num_tokens
    backward = 2 * forward
    return forward + backward + (forward if recompute_forward else 0)
