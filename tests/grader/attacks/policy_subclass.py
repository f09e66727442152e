"""Makes its layer a subclass of the forbidden one, and that of one that is derived from it.

group: cheat the exercise
target: linear
status: policy
holds: the base class is found in the source, and making one trips.
"""

import torch


class Linear(torch.nn.modules.linear.NonDynamicallyQuantizableLinear):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)


class MLP(torch.nn.Linear):
    pass
