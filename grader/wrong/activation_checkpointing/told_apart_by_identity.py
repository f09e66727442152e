"""Tensors are told apart by id(), and autograd shows a new Python object each time.

hint: one storage may be shown through many tensor objects
"""


def saved_activation_bytes(fn, exclude=()):
    kept = []

    def pack(x):
        kept.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    excluded = {x.untyped_storage()._cdata for x in exclude}
    return sum({id(x): x.untyped_storage().nbytes() for x in kept if x.untyped_storage()._cdata not in excluded}.values())
