"""trainable_only is ignored.

hint: requires_grad says what is trainable
"""


def count_parameters(module, *, trainable_only=False):
    return sum(p.numel() for p in module.parameters())
