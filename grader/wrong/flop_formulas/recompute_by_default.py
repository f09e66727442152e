"""Recomputation is on by default.

hint: the default is False
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=True):
    return (8 if recompute_forward else 6) * num_parameters * num_tokens
