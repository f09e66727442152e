"""Makes its layers subclasses of the forbidden class and of a class derived from it.

group: cheat the exercise
target: linear
status: policy
holds: the base class is detected in the source, and creating an instance at run time.
"""

import torch


class Linear(torch.nn.modules.linear.NonDynamicallyQuantizableLinear):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)


class MLP(torch.nn.Linear):
    pass
