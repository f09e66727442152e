"""Leaves modules named like torch and like the probes for the reference's process.

group: change the surroundings
from: pygpubench replace_torch
takes: 3
ends: too slow
holds: no file of one process is there in the next one.
"""

import os
import tempfile

for folder in (os.getcwd(), tempfile.gettempdir(), os.path.dirname(__file__)):
    for name in ("torch.py", "sitecustomize.py", "work.py", "tests/probes/work.py"):
        try:
            os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
            with open(f"{folder}/{name}", "x") as f:
                f.write("raise RuntimeError('BREACH')\n")
        except OSError:
            pass


def product(a, b):
    return a @ b
