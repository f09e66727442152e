"""recompute_forward is ignored.

hint: the forward pass runs once more
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return 6 * num_parameters * num_tokens
