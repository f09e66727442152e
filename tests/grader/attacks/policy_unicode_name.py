"""Spells the forbidden name with Unicode letters that Python normalizes to ASCII.

group: cheat the exercise
target: linear
tests: test_linear
status: policy
holds: the source is read as Python reads it, with normalized names.
"""

import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(
            torch.zeros(out_features, in_features, device=device, dtype=dtype)
        )

    def forward(self, x):
        return torch.nn.functional.ｌinear(x, self.weight)
