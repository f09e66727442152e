"""Has another part of torch call the forbidden function.

group: cheat the exercise
target: activation_checkpointing
status: policy
earns: less
holds: a call to the forbidden function is detected, whatever code makes it.
"""

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper


class Call(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)


def checkpoint(fn, *inputs):
    return checkpoint_wrapper(Call(fn))(*inputs)
