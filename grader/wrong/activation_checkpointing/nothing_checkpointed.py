"""fn is simply called, with gradients on, so everything in it is kept.

hint: the first call is to keep nothing but the inputs
"""


def checkpoint(fn, *inputs):
    return fn(*inputs)
