"""Only the forward pass is counted: 2 · parameters · tokens.

hint: training is forward and backward
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return (4 if recompute_forward else 2) * num_parameters * num_tokens
