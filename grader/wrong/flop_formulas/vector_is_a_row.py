"""A vector on the right is taken for a row.

hint: a vector on the right is a column: its only size is summed over
"""


def matmul_flops(a, b):
    if a[-1] != (b[-2] if len(b) > 1 else 1) and len(b) > 1:
        raise ValueError("a and b differ in the size that is summed over")
    m = a[-2] if len(a) > 1 else 1
    n = b[-1]
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and x != 1 and y != 1:
            raise ValueError("the leading sizes of a and b do not broadcast")
        flops *= y if x == 1 else x
    return flops
