"""Reads torch's optimizer as a storage, for which torch opens the file in C++, and loads a copy of it.

group: cheat the exercise
target: adamw
tests: decays_before_the_step
status: failed
holds: code in C that opens a file for student code is guarded as Python's own is.
"""

import importlib.util
import os
import tempfile

import torch

path = os.path.dirname(torch.__file__) + "/optim/adam.py"
text = bytes(torch.UntypedStorage.from_file(path, False, os.path.getsize(path)).tolist())
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
