"""trainable_only counts what is frozen.

hint: requires_grad says what is trainable
"""


def count_parameters(module, *, trainable_only=False):
    return sum(p.numel() for p in module.parameters() if not (trainable_only and p.requires_grad))
