"""A master copy is counted for each optimizer state."""


def bytes_per_parameter(recipe):
    master = recipe.master.itemsize if recipe.master else 0
    return (
        recipe.parameter.itemsize
        + recipe.gradient.itemsize
        + sum(d.itemsize + master for d in recipe.optimizer_state)
    )
