"""What the gradient takes is not in the sum.

is: gradient_forgotten
"""


def bytes_per_parameter(recipe):
    total = recipe.parameter.itemsize + (recipe.master.itemsize if recipe.master else 0)
    for d in recipe.optimizer_state:
        total += d.itemsize
    return total
