"""Returns tensor subclasses that override every torch function to return True.

group: lie about types
target: tensor_memory
status: failed
holds: the claims of a subclass are ignored: it arrives as plain values, or as the name of its type.
"""

import torch


class Liar(torch.Tensor):
    shape = property(lambda self: (1, 1))
    dtype = property(lambda self: torch.float32)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return torch.tensor(True)


liar = torch.zeros(1).as_subclass(Liar)


def tensor_bytes(x):
    return liar


def storage_bytes(x):
    return [liar, torch.nn.Parameter(liar)]


unique_bytes = tensor_bytes
