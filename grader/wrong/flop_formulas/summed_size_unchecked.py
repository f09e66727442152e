"""The sizes that are summed over are not compared.

hint: (2, 3) @ (2, 3) is no product
"""


def matmul_flops(a, b):
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and x != 1 and y != 1:
            raise ValueError("the leading sizes of a and b do not broadcast")
        flops *= y if x == 1 else x
    return flops
