"""Makes float64 the default, so that rounding cannot be seen in its output.

group: change the surroundings
ends: refused
says: wrong dtype
holds: global settings of this process do not reach the one that makes the inputs for the check.
"""

import torch

torch.set_default_dtype(torch.float64)


def product(a, b):
    return a @ b
