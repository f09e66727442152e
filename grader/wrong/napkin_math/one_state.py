"""Only the first optimizer state is counted.

hint: one number of each dtype in optimizer_state
"""


def bytes_per_parameter(recipe):
    kept = [recipe.parameter, recipe.gradient, *recipe.optimizer_state[:1], *([recipe.master] if recipe.master else [])]
    return sum(dtype.itemsize for dtype in kept)
