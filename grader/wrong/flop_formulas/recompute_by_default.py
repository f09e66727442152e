"""Recomputation is on by default.

hint: the default is False
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=True):
    if num_parameters < 0:
        raise ValueError("num_parameters must not be negative")
    if num_tokens < 0:
        raise ValueError("num_tokens must not be negative")
    return (8 if recompute_forward else 6) * num_parameters * num_tokens
