"""A set of dtypes is summed.

is: states_once_a_dtype
"""


def bytes_per_parameter(recipe):
    kinds = {recipe.parameter, recipe.gradient, recipe.master, *recipe.optimizer_state}
    return sum(d.itemsize for d in kinds if d is not None)
