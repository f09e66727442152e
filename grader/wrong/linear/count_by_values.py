"""Parameters with equal values are taken for one.

hint: tied means one parameter, not equal numbers
"""


def count_parameters(module, *, trainable_only=False):
    found = []
    for p in module.parameters():
        if (p.requires_grad or not trainable_only) and not any(torch.equal(p, q) for q in found):
            found.append(p)
    return sum(p.numel() for p in found)
