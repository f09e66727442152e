"""A tied parameter is counted under each of its names.

hint: parameters() gives each parameter once, remove_duplicate=False does not
"""


def count_parameters(module, *, trainable_only=False):
    named = module.named_parameters(remove_duplicate=False)
    return sum(p.numel() for _, p in named if p.requires_grad or not trainable_only)
