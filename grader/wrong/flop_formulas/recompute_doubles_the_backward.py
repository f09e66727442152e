"""Recomputation is taken to cost a second backward pass.

hint: the forward pass runs once more: 2 FLOPs
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return (10 if recompute_forward else 6) * num_parameters * num_tokens
