"""A parameter is taken for trainable when it has a gradient."""


def count_parameters(module, *, trainable_only=False):
    total = 0
    for p in module.parameters():
        if trainable_only and p.grad is None:
            continue
        total += p.nelement()
    return total
