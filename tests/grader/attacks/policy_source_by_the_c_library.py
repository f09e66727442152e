"""Reads torch's optimizer by the C library's own functions, and loads a copy of it.

group: cheat the exercise
target: adamw
tests: decays_before_the_step
status: failed
holds: student code finds no C function where something is forbidden.
"""

import ctypes
import importlib.util
import os
import tempfile

import torch

path = os.path.dirname(torch.__file__) + "/optim/adam.py"
libc = ctypes.CDLL(None)
buffer = ctypes.create_string_buffer(os.path.getsize(path))
libc.read(libc.open(path.encode(), os.O_RDONLY), buffer, len(buffer))
text = buffer.raw
with open(f"{tempfile.gettempdir()}/again.py", "wb") as f:
    f.write(text)
spec = importlib.util.spec_from_file_location(
    "torch.optim.again", f"{tempfile.gettempdir()}/again.py"
)
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)


class AdamW(again.Adam):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)
