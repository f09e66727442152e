"""Returns new memory as it is, in the hope that the reference's output is still there.

group: skip the work
from: KernelBench result_reuse; pygpubench gpu_scan_zeros
device: stand-in
ends: refused
says: wrong values | NaN
holds: the reference's output was in another process.
"""

import torch


def product(a, b):
    candidates = [torch.empty_like(a) for _ in range(50)]
    return next((x for x in candidates if 0 < x[0, 0] < 48), candidates[0])
