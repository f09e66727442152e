"""Each submodule's own parameters are added up, shared ones again wherever they appear.

is: count_ties_twice
"""


def count_parameters(module, *, trainable_only=False):
    own = [p for p in module._parameters.values() if p is not None]
    total = sum(math.prod(p.shape) for p in own if p.requires_grad or not trainable_only)
    return total + sum(
        count_parameters(child, trainable_only=trainable_only)
        for child in module._modules.values()
        if child
    )
