"""Loads torch's module of the forbidden class a second time, from its file.

group: cheat the exercise
target: linear
status: policy, failed
holds: the file cannot be read in this problem, or the call in it trips.
"""

import importlib.util

import torch
from torch import nn

spec = importlib.util.spec_from_file_location("again", nn.modules.linear.__file__)
again = importlib.util.module_from_spec(spec)
spec.loader.exec_module(again)


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))

    def forward(self, x):
        return again.Linear.forward(self, x)
