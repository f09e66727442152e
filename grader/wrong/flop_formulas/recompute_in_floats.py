"""Recomputation multiplies by 4/3, a float.

hint: 2 + 2 + 4 is an integer; 6 · 4/3 in floats is not exact
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    if num_parameters < 0:
        raise ValueError("num_parameters must not be negative")
    if num_tokens < 0:
        raise ValueError("num_tokens must not be negative")
    return int(6 * num_parameters * num_tokens * (4 / 3 if recompute_forward else 1))
