"""Gives its module weights of a tensor subclass, which the tests inspect.

group: lie about types
target: linear
status: failed, crashed
earns: less
holds: a weight of a subclass arrives as plain values and is graded by them; it never causes a grader fault.
"""

import torch
from torch import nn


class Weight(torch.Tensor):
    pass


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(
            torch.ones(out_features, in_features, device=device, dtype=dtype).as_subclass(Weight)
        )

    def forward(self, x):
        return torch.full(
            (*x.shape[:-1], self.weight.shape[0]), 7.0, dtype=x.dtype, device=x.device
        )


class MLP(Linear):
    pass


def count_parameters(module, trainable_only=False):
    return -1
