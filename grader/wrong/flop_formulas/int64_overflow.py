"""The sizes are multiplied in 64-bit integers, which overflow.

hint: Python integers do not overflow; math.prod keeps them
"""

import numpy as np


def matmul_flops(a, b):
    if a[-1] != b[-2:][0]:
        raise ValueError("a and b differ in the size that is summed over")
    batch = []
    for x, y in itertools.zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1):
        if x != y and 1 not in (x, y):
            raise ValueError("the leading sizes of a and b do not broadcast")
        batch.append(y if x == 1 else x)
    return int(2 * np.prod(np.array([*batch, *a[-2:], *b[-2:][1:]], dtype=np.int64)))
