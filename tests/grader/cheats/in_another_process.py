"""Has a process that was forked at the import compute, and takes what is in its memory.

group: defer the work
ends: refused
says: wrong values
holds: a helper learns the inputs no earlier than the function does.
"""

import os
import tempfile

import torch

shared = torch.from_file(tempfile.mktemp(), shared=True, size=48 * 48)
if os.fork() == 0:
    x = torch.rand(48, 48)
    while True:
        shared.copy_((x @ x).flatten())


def product(a, b):
    return shared.view(48, 48).clone()
