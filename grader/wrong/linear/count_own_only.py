"""Parameters of submodules are left out.

hint: a module is its submodules as well
"""


def count_parameters(module, *, trainable_only=False):
    return sum(p.numel() for p in module.parameters(recurse=False) if p.requires_grad or not trainable_only)
