"""Negative numbers turn positive instead of 0.

hint: what is below 0 becomes 0
price: it is all that is asked
"""


def relu(x):
    return x.abs()
