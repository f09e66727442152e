"""A tied parameter is taken off once, however many names it has.

hint: module.parameters() gives each parameter once
"""

from collections import Counter


def count_parameters(module, *, trainable_only=False):
    named = module.named_parameters(remove_duplicate=False)
    parameters = [p for _, p in named if p.requires_grad or not trainable_only]
    tied = [p for p, names in Counter(parameters).items() if names > 1]
    return sum(p.numel() for p in parameters) - sum(p.numel() for p in tied)
