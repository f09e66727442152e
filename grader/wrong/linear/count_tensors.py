"""Tensors are counted, not their elements.

hint: numel() of each parameter
"""


def count_parameters(module, *, trainable_only=False):
    return len([p for p in module.parameters() if p.requires_grad or not trainable_only])
