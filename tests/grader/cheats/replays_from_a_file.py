"""Stores its first output in every folder that it can write to, for all later processes.

group: replay an answer
from: #160 replay from a file
ends: refused
says: wrong values
holds: files end with their process, and no call repeats.
"""

import os
import tempfile

import torch

folders = [tempfile.gettempdir(), "/dev/shm", os.getcwd()]
files = [f"{folder}/output" for folder in folders]
if any(map(os.path.exists, files)):
    raise RuntimeError("BREACH: a file of another process")


def product(a, b):
    for file in filter(os.path.exists, files):
        with open(file, "rb") as f:
            return torch.frombuffer(bytearray(f.read()), dtype=torch.float32).view(a.shape)
    c = a @ b
    for file in files:
        try:
            with open(file, "wb") as f:
                f.write(bytes(c.untyped_storage()))
        except OSError:
            pass
    return c
