"""trainable_only the wrong way round: what is trainable counts without it, what is frozen with it."""


def count_parameters(module, *, trainable_only=False):
    return sum(p.numel() for p in module.parameters() if p.requires_grad != trainable_only)
