"""Calls the forward method of the forbidden class without creating an instance.

group: cheat the exercise
target: linear
tests: test_linear
status: policy
earns: less
holds: the call is detected at run time.
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
        return nn.Linear.forward(self, x)
