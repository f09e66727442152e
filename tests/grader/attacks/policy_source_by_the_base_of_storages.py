"""Reads torch's optimizer by a method of the class behind torch's storages, and loads a copy of it.

group: cheat the exercise
target: adamw
tests: decays_before_the_step
open: the base class is part of torch's C++ code, so its method cannot be replaced.
status: failed
holds: code that calls what torch does not document can read a guarded source.
"""

import importlib.util
import os
import tempfile

import torch

path = os.path.dirname(torch.__file__) + "/optim/adam.py"
from_file = getattr(torch._C, "Storage" + "Base").from_file
text = bytes(from_file(path, False, os.path.getsize(path)).tolist())
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
