"""A scalar is taken for a matrix of one element.

hint: torch.matmul wants at least one dimension on both sides
"""


def matmul_flops(a, b):
    a, b = tuple(a) or (1,), tuple(b) or (1,)
    if min(a) < 0 or min(b) < 0:
        raise ValueError("a and b must have no negative size")
    if a[-1] != 1 and b != (1,) and a[-1] != (b[-2] if len(b) > 1 else b[0]):
        raise ValueError("a and b differ in the size that is summed over")
    m = a[-2] if len(a) > 1 else 1
    n = b[-1] if len(b) > 1 else 1
    flops = 2 * m * a[-1] * n
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and x != 1 and y != 1:
            raise ValueError("the leading sizes of a and b do not broadcast")
        flops *= y if x == 1 else x
    return flops
