"""Where there is no master copy, one of float32 is counted.

hint: master is None where the parameter itself is updated
"""


def bytes_per_parameter(recipe):
    kept = [recipe.parameter, recipe.gradient, *recipe.optimizer_state, recipe.master or torch.float32]
    return sum(dtype.itemsize for dtype in kept)
