"""A size of 1 is broadcast where it is summed over.

hint: only leading dimensions are broadcast
"""


def matmul_flops(a, b):
    k = b[-2] if len(b) > 1 else b[0]
    if a[-1] != k and 1 not in (a[-1], k):
        raise ValueError("a and b differ in the size that is summed over")
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and x != 1 and y != 1:
            raise ValueError("the leading sizes of a and b do not broadcast")
        flops *= y if x == 1 else x
    return flops
