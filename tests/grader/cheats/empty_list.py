"""Returns an empty list.

group: skip the work
from: 171543b empty output
ends: refused
says: wrong type
holds: an output without values is no output.
"""


def product(a, b):
    return []
