"""Loads torch's optimizer a second time from its compiled file, to get past the guards of the first.

group: cheat the exercise
target: adamw
status: failed
holds: neither the source file nor its compiled form can be read in this problem.
"""

import importlib.util
import os
import sys
import tempfile

import torch

TMP = tempfile.gettempdir()
first = sys.modules["torch.optim." + "adam"]
spec = importlib.util.spec_from_file_location("torch.optim.again", first.__file__)
again = importlib.util.module_from_spec(spec)
try:
    spec.loader.exec_module(again)
except PermissionError:  # so load it through links
    os.makedirs(f"{TMP}/__pycache__")
    os.symlink(first.__file__, f"{TMP}/again.py")
    os.symlink(first.__cached__, importlib.util.cache_from_source(f"{TMP}/again.py"))
    spec = importlib.util.spec_from_file_location("torch.optim.again", f"{TMP}/again.py")
    spec.loader.exec_module(again)


class AdamW(again.Adam):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lr, betas, eps, weight_decay, decoupled_weight_decay=True)
