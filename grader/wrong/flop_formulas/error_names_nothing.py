"""The error for a negative count does not say which argument it is.

hint: say num_tokens where num_tokens is negative
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    if num_parameters < 0 or num_tokens < 0:
        raise ValueError("counts must not be negative")
    return (8 if recompute_forward else 6) * num_parameters * num_tokens
