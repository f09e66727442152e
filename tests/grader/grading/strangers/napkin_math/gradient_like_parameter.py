"""The gradient is taken to have the dtype of the parameter."""


def bytes_per_parameter(recipe):
    dtypes = [recipe.parameter, recipe.parameter, *recipe.optimizer_state]
    return sum(d.itemsize for d in dtypes + [recipe.master] * bool(recipe.master))
