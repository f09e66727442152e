"""Computes in bfloat16 and returns float32.

group: compute what is checked
from: deep-reinforce precision downgrade
ends: refused
says: wrong values
holds: the tolerance is that of the dtype which the problem asks for.
"""


def product(a, b):
    return (a.bfloat16() @ b.bfloat16()).float()
