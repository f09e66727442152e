"""Recomputation multiplies by 4/3, a float.

hint: 2 + 2 + 4 is an integer; 6 · 4/3 in floats is not exact
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    return int(6 * num_parameters * num_tokens * (4 / 3 if recompute_forward else 1))
