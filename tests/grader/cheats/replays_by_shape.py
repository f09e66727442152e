"""Returns the first output again for inputs of the same shape.

group: replay an answer
ends: refused
says: wrong values
holds: every call has new values, whatever their shape.
"""

outputs = {}


def product(a, b):
    if a.shape not in outputs:
        outputs[a.shape] = a @ b
    return outputs[a.shape]
