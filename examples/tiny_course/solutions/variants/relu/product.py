"""A product with a mask."""


def relu(x):
    return x * (x > 0)
