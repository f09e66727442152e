"""training_flops takes negative counts.

hint: a model has no negative number of parameters
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return (8 if recompute_forward else 6) * num_parameters * num_tokens
