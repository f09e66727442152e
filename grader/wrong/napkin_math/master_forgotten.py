"""The master copy is not counted.

hint: the master copy is kept beside the parameter
"""


def bytes_per_parameter(recipe):
    return sum(dtype.itemsize for dtype in (recipe.parameter, recipe.gradient, *recipe.optimizer_state))
