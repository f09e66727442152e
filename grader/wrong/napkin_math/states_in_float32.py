"""Every optimizer state takes 4 bytes.

hint: each state has a dtype of its own
"""


def bytes_per_parameter(recipe):
    size = recipe.parameter.itemsize + recipe.gradient.itemsize + 4 * len(recipe.optimizer_state)
    return size + (recipe.master.itemsize if recipe.master else 0)
