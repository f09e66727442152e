"""Right code that takes twice as long.

group: right code
takes: 2
ends: too slow
holds: the clock decides about right code.
"""


def product(a, b):
    return a @ b
