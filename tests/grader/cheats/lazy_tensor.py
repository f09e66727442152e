"""Returns a subclass of a tensor that computes itself when a function of torch looks at it.

group: defer the work
from: deep-reinforce lazy evaluation; #161 lazy output
ends: refused
says: wrong values | NaN
holds: the digest is that of the tensor's own memory, without a look through its subclass.
"""

import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            computed = [x.a @ x.b if isinstance(x, Lazy) else x for x in args]
            return function(*computed, **(kwargs or {}))


def product(a, b):
    c = torch.zeros_like(a).as_subclass(Lazy)
    c.a, c.b = a, b
    return c
