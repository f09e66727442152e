"""A module encoded in UTF-7, in which the bytes do not show the forbidden call.

group: hostile files
target: linear
kind: source
status: policy
holds: the source is decoded as Python decodes it.
"""


def source() -> bytes:
    code = "from torch.nn import functional as F\nclass Linear:\n    def __init__(self, *a, **k):\n        F.linear(*a)\n"
    return b"# -*- coding: utf-7 -*-\n" + code.replace("F.", "+AEY-.").encode()
