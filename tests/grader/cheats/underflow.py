"""Makes every fifth call as fast as nothing, so that a mean of logarithms falls.

group: change the clock
from: #162 aggregator underflow
takes: 0 3 3 3 3
ends: too slow
holds: a few fast calls do not change a median.
"""


def product(a, b):
    return a @ b
