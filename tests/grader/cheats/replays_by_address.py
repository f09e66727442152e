"""Returns the first output again for inputs at the same address, or with the same id.

group: replay an answer
from: #102 caching by id
ends: refused
says: wrong values
holds: every call has new values, wherever they are.
"""

outputs = {}


def product(a, b):
    for key in (a.data_ptr(), id(a)):
        if key in outputs:
            return outputs[key]
    outputs[a.data_ptr()] = outputs[id(a)] = c = a @ b
    outputs["kept"] = [*outputs.get("kept", []), a, b]
    return c if len(outputs["kept"]) < 4 else outputs["first"]


outputs["first"] = None


def remember(function):
    def first(a, b):
        c = function(a, b)
        if outputs["first"] is None:
            outputs["first"] = c
        return c

    return first


product = remember(product)
