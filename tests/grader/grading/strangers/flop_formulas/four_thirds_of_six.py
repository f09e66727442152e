"""Recomputation is a factor of 4/3, which makes a float.

is: recompute_in_floats
"""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    base = num_tokens * num_parameters * 6
    return base * 4 / 3 if recompute_forward else base
