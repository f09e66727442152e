"""Bits divided by 8 give a float.

hint: bytes are whole: // and not /
"""


def bytes_per_parameter(recipe):
    kept = [recipe.parameter, recipe.gradient, *recipe.optimizer_state, *([recipe.master] if recipe.master else [])]
    return sum(torch.finfo(dtype).bits for dtype in kept) / 8
