"""A module in UTF-7, whose text reads otherwise than its bytes look, with a forbidden call in it.

group: hostile files
target: linear
kind: source
status: policy
holds: it is read as Python reads it.
"""


def source() -> bytes:
    code = "from torch.nn import functional as F\nclass Linear:\n    def __init__(self, *a, **k):\n        F.linear(*a)\n"
    return b"# -*- coding: utf-7 -*-\n" + code.replace("F.", "+AEY-.").encode()
