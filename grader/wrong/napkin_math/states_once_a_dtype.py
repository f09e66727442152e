"""Two optimizer states of one dtype, or one of the parameter's, are counted once.

hint: a set holds a dtype once, memory holds a number for each
"""


def bytes_per_parameter(recipe):
    kept = {recipe.parameter, recipe.gradient, *recipe.optimizer_state}
    return sum(dtype.itemsize for dtype in kept) + (recipe.master.itemsize if recipe.master else 0)
