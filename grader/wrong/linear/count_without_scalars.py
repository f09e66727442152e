"""Parameters without dimensions are left out.

hint: a scalar is one number to learn
"""


def count_parameters(module, *, trainable_only=False):
    parameters = [p for p in module.parameters() if p.requires_grad or not trainable_only]
    return sum(p.numel() for p in parameters if p.dim() > 0)
