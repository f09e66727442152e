"""The gradient is not counted.

hint: each parameter has a gradient, of a dtype of its own
"""


def bytes_per_parameter(recipe):
    kept = [recipe.parameter, *recipe.optimizer_state, *([recipe.master] if recipe.master else [])]
    return sum(dtype.itemsize for dtype in kept)
