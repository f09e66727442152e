"""Without an input that requires a gradient the backward pass never gets to fn's parameters.

hint: an autograd.Function has a backward pass only where one of its arguments requires a gradient
"""


def checkpoint(fn, *inputs):
    return _Recompute.apply(fn, None, *inputs)
