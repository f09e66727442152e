"""`exclude` is gone through again for each saved tensor, and a generator can be gone through once.

hint: go through an iterable once
"""


def saved_activation_bytes(fn, exclude=()):
    kept = {}

    def pack(x):
        if not any(x.untyped_storage()._cdata == y.untyped_storage()._cdata for y in exclude):
            kept[x.untyped_storage()._cdata] = x.untyped_storage()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fn()
    return sum(s.nbytes() for s in kept.values())
