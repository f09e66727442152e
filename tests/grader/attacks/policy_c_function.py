"""Calls the C function behind the forbidden function, through a local name.

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
        nn_c = torch._C._nn
        return nn_c.linear(x, self.weight)
