"""Makes half of its calls very slow, so that an interval of means becomes too wide for a verdict.

group: change the clock
takes: 3 300
ends: too slow
holds: the interval depends on how many pairs are slow, not on how slow they are.
"""


def product(a, b):
    return a @ b
