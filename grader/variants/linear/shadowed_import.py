"""An editor has added an import of torch's Linear, which the module's own definition hides."""

from torch.nn import Linear


def count_parameters(module, *, trainable_only=False):
    return sum(p.numel() for p in module.parameters() if p.requires_grad or not trainable_only)
