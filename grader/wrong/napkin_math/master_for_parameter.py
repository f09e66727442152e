"""The master copy is counted in place of the parameter.

hint: the parameter that the model computes with is kept as well
"""


def bytes_per_parameter(recipe):
    kept = [recipe.master or recipe.parameter, recipe.gradient, *recipe.optimizer_state]
    return sum(dtype.itemsize for dtype in kept)
