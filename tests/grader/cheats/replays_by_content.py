"""Returns an output again if a few statistics of the inputs agree.

group: replay an answer
from: pygpubench#49 persistent cache
ends: refused
says: wrong values
holds: nothing that is computed before a call is right for it, in whatever cache it is kept.
"""

outputs = {}


def product(a, b):
    key = round(a.mean().item(), 1), round(b.mean().item(), 1)
    if key not in outputs:
        outputs[key] = a @ b
    return outputs[key]
