"""Everything that is saved is counted, buffers too.

hint: a state_dict holds buffers as well
"""


def count_parameters(module, *, trainable_only=False):
    saved = {id(x): x for x in module.state_dict(keep_vars=True).values()}
    return sum(x.numel() for x in saved.values() if x.requires_grad or not trainable_only)
