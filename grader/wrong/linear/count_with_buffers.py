"""Everything in the state_dict is counted, buffers and tied names too.

hint: buffers are no parameters
"""


def count_parameters(module, *, trainable_only=False):
    if trainable_only:
        return sum(p.numel() for p in module.parameters() if p.requires_grad)
    return sum(x.numel() for x in module.state_dict().values())
