"""Recomputation adds one multiply, not a multiply and an add."""


def training_flops(num_parameters, num_tokens, *, recompute_forward=False):
    per_token = sum([2, 4, int(recompute_forward)])
    return num_parameters * num_tokens * per_token
