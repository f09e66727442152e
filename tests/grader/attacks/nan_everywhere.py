"""Makes every weight and every output NaN, in the hope that NaN compares equal to NaN.

group: lie about types
target: linear
status: failed
earns: less
holds: a NaN never matches an expected value; registering a weight is worth what it is.
"""

import torch
from torch import nn

nan = float("nan")


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        weight = torch.full((out_features, in_features), nan, dtype=torch.complex64)
        self.weight, self.more = nn.Parameter(weight), nn.Parameter(weight)

    def forward(self, x):
        return torch.full((*x.shape[:-1], self.weight.shape[0]), nan)


class MLP(Linear):
    def __init__(self, dims, device=None, dtype=None):
        super().__init__(3, 3)


def count_parameters(module, trainable_only=False):
    return nan
