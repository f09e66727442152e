"""A batch size of 0 is taken with any other.

hint: only 1 is broadcast
"""


def matmul_flops(a, b):
    if len(a) == 0 or len(b) == 0:
        raise ValueError("a and b need at least one dimension")
    if min(a) < 0 or min(b) < 0:
        raise ValueError("a and b must have no negative size")
    if a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ValueError("a and b differ in the size that is summed over")
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and min(x, y) > 1:
            raise ValueError("the leading sizes of a and b do not broadcast")
        flops *= y if x == 1 else x
    return flops
