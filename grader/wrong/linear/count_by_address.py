"""Parameters are told apart by their address, which meta tensors and empty ones do not have.

hint: tell parameters apart by identity, as parameters() does
"""


def count_parameters(module, *, trainable_only=False):
    seen = {p.data_ptr(): p for p in module.parameters() if p.requires_grad or not trainable_only}
    return sum(p.numel() for p in seen.values())
