"""The larger of two batch sizes is used, and batches that do not broadcast are accepted.

hint: sizes broadcast only where they are equal or one of them is 1
"""


def matmul_flops(a, b):
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ValueError("a and b differ in the size that is summed over")
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        flops *= max(x, y)
    return flops
